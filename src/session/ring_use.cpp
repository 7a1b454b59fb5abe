#include "session/ring_use.h"

namespace headscope::session {
namespace {

// Trivial, so that they can be used while the thread's other objects are destroyed.
thread_local constinit ThreadRing* t_ring = nullptr;
thread_local constinit bool t_ended = false;

/// Parks the thread's ring when the thread ends.
struct ThreadEnd {
  Collector* collector = nullptr;

  ~ThreadEnd() {
    // A use of its own, which parks the ring as it goes.
    t_ended = true;
    if (collector != nullptr && t_ring != nullptr) {
      const RingUse last(*collector);
    }
  }
};

thread_local ThreadEnd t_end;

}  // namespace

RingUse::RingUse(Collector& collector) noexcept : collector_(&collector), ring_(t_ring) {
  if (ring_ == nullptr) {
    ring_ = collector.take_ring();
    t_ring = ring_;
    if (!t_ended) {
      t_end.collector = &collector;
    }
  }
}

RingUse::~RingUse() {
  if (t_ended && ring_ != nullptr) {
    t_ring = nullptr;
    collector_->park_ring(*ring_);
  }
}

ThreadRing* RingUse::known() noexcept { return t_ring; }

}  // namespace headscope::session
