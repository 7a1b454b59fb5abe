#include "process.h"

#include <pthread.h>

#include <atomic>
#include <new>

#include "capture/torch/hooks.h"
#include "timeline/cupti/cupti_timeline.h"

namespace headscope {
namespace {

std::atomic<session::Collector*> g_collector{nullptr};
std::atomic<DeviceClock*> g_clock{nullptr};

}  // namespace

session::Collector& the_collector() {
  static session::Collector& instance = []() -> session::Collector& {
    auto* made = new session::Collector;
    capture::torch::install_hooks(*made);
    g_collector = made;
    return *made;
  }();
  return instance;
}

session::Collector* collector_if_made() noexcept { return g_collector.load(); }

/// A thread of the parent may hold the lock while another one forks.
struct DeviceClockForkHandlers {
  static void before() noexcept { g_clock.load()->mutex_.lock(); }
  static void after() noexcept { g_clock.load()->mutex_.unlock(); }
};

DeviceClock& the_device_clock() {
  static DeviceClock* const clock = [] {
    session::Collector& collector = the_collector();
    auto* made = new DeviceClock(timeline::cupti::cupti_timeline(), collector);
    g_clock = made;
    // Registered after the collector's own, so that its lock is taken before theirs.
    if (pthread_atfork(&DeviceClockForkHandlers::before, &DeviceClockForkHandlers::after,
                       &DeviceClockForkHandlers::after) != 0) {
      throw std::bad_alloc();
    }
    constexpr auto settle = [] { g_clock.load()->settle(DeviceClock::Wait::kNo); };
    collector.when_many_pending(settle);
    timeline::cupti::cupti_timeline().when_many_spans(settle);
    return made;
  }();
  return *clock;
}

DeviceClock* device_clock_if_made() noexcept { return g_clock.load(); }

}  // namespace headscope
