#include "capture/torch/thread_state.h"

#include <atomic>

namespace headscope::capture::torch {
namespace {

constinit std::atomic<records::CallSink*> g_sink{nullptr};

}  // namespace

ThreadState& thread_state() noexcept {
  thread_local ThreadState state;
  return state;
}

records::CallSink* sink() noexcept { return g_sink.load(std::memory_order_acquire); }

void set_sink(records::CallSink& sink) noexcept { g_sink.store(&sink, std::memory_order_release); }

ForwardLinks& forward_links() noexcept {
  // Leaked: hooks of other threads may use it while the process exits.
  static auto* const links = new ForwardLinks;
  return *links;
}

OpenForwards& open_forwards() noexcept {
  static auto* const forwards = new OpenForwards;
  return *forwards;
}

Redispatch::Redispatch(ThreadState& state, const records::Watch& watch, const ExpectedAllocations& expected,
                       Inside inside) noexcept
    : state_(state),
      metered_(watch.memory && state.meter.start(expected)),
      suppression_(inside == Inside::kSuppressed ? 1 : 0),
      start_ns_(base::monotonic_ns()) {
  state_.suppressed += suppression_;
}

void Redispatch::stop() noexcept {
  end_ns_ = base::monotonic_ns();
  open_ = false;
  state_.suppressed -= suppression_;
  if (metered_) {
    memory_ = state_.meter.stop();
  }
}

Redispatch::~Redispatch() {
  if (open_) {
    stop();
  }
}

}  // namespace headscope::capture::torch
