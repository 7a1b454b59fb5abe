#include <pthread.h>

#include <new>

#include "session/collector.h"
#include "session/ring_use.h"

namespace headscope::session {
namespace {

Collector* g_collector = nullptr;

}  // namespace

/// fork() copies one thread. Before it, all locks are taken and every call is folded, so that the child finds
/// whole data; the child then lets go of the threads that it lacks.
struct ForkHandlers {
  static void before() noexcept {
    Collector& collector = *g_collector;
    collector.control_.lock();
    collector.rings_.for_each([&](ThreadRing& ring) {
      ring.draining.lock();
      collector.drain(ring);
    });
  }

  static void in_parent() noexcept {
    g_collector->rings_.for_each([](ThreadRing& ring) { ring.draining.unlock(); });
    g_collector->control_.unlock();
  }

  static void in_child() noexcept {
    Collector& collector = *g_collector;
    const ThreadRing* own = RingUse::known();
    collector.rings_.forget_parked();
    collector.rings_.for_each([&](ThreadRing& ring) {
      ring.draining.unlock();
      if (&ring != own) {
        ring.calls.abandon();
        collector.rings_.park(ring);
      }
    });
    for (Session* session : collector.slots_) {
      if (session != nullptr) {
        collector.end(*session);
      }
    }
    collector.control_.unlock();
  }
};

void handle_forks(Collector& collector) {
  g_collector = &collector;
  if (pthread_atfork(&ForkHandlers::before, &ForkHandlers::in_parent, &ForkHandlers::in_child) != 0) {
    throw std::bad_alloc();  // ENOMEM is all it can say
  }
}

}  // namespace headscope::session
