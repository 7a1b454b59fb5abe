#include "device_clock.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "capture/torch/device_state.h"
#include "capture/torch/hooks.h"
#include "timeline/cupti/cupti_timeline.h"

namespace headscope {
namespace {

DeviceClock* g_clock = nullptr;

}  // namespace

/// A thread of the parent may hold the lock while another one forks.
struct DeviceClockForkHandlers {
  static void before() noexcept { g_clock->mutex_.lock(); }
  static void after() noexcept { g_clock->mutex_.unlock(); }
};

DeviceClock& device_clock(session::Collector& collector) {
  static DeviceClock* const clock = [&collector] {
    timeline::DeviceTimeline& timeline = timeline::cupti::cupti_timeline();
    g_clock = new DeviceClock(timeline, collector);
    // Registered after the collector's own, so that its lock is taken before theirs.
    if (pthread_atfork(&DeviceClockForkHandlers::before, &DeviceClockForkHandlers::after,
                       &DeviceClockForkHandlers::after) != 0) {
      throw std::bad_alloc();
    }
    capture::torch::observe_ops(timeline);
    collector.when_many_pending([] { g_clock->settle(DeviceClock::Wait::kNo); });
    return g_clock;
  }();
  return *clock;
}

timeline::Status DeviceClock::join() {
  const std::lock_guard lock(mutex_);
  timeline::Situation situation;
  situation.torch_profiler_running = capture::torch::torch_profiler_runs();
  situation.cuda_major = capture::torch::torch_cuda_major();
  timeline::Status status = timeline_.start(situation);
  users_ += status.enabled() ? 1 : 0;
  return status;
}

void DeviceClock::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (users_ == 0 || --users_ > 0) {
    return;
  }
  try {
    timeline_.stop();
    join_.add(timeline_.take());
    take_pending();
    fold_settled(true);
  } catch (...) {
    waiting_.clear();  // out of memory
  }
}

void DeviceClock::settle(Wait wait) noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wait == Wait::kYes) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // a thread of the program is never held up; who has the lock settles for it
  }
  try {
    take_pending();
    if (wait == Wait::kYes) {
      capture::torch::wait_for_devices(devices());
    }
    timeline_.flush();
    join_.add(timeline_.take());
    fold_settled(wait == Wait::kYes);
    // Calls of a device whose records never come must not pile up.
    if (waiting_.size() >= 2 * session::Collector::kMostPending) {
      fold_settled(true);
    }
  } catch (...) {
    waiting_.clear();  // out of memory
  }
}

void DeviceClock::take_pending() {
  std::vector<session::PendingCall> taken = collector_.take_pending();
  std::ranges::move(taken, std::back_inserter(waiting_));
}

void DeviceClock::fold_settled(bool all) {
  std::vector<records::AttentionCall*> calls;
  calls.reserve(waiting_.size());
  std::ranges::transform(waiting_, std::back_inserter(calls),
                         [](session::PendingCall& pending) { return &pending.call; });
  const std::vector<bool> settled = join_.settle(calls, all);

  std::vector<session::PendingCall> ready;
  std::vector<session::PendingCall> rest;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    (settled[i] ? ready : rest).push_back(std::move(waiting_[i]));
  }
  waiting_ = std::move(rest);
  for (records::AttentionCall& lone : join_.take_lone()) {
    ready.push_back(collector_.pending_of(std::move(lone)));
  }
  collector_.add(ready);
}

std::vector<records::Device> DeviceClock::devices() const {
  std::vector<records::Device> devices;
  for (const session::PendingCall& pending : waiting_) {
    if (std::ranges::find(devices, pending.call.device) == devices.end()) {
      devices.push_back(pending.call.device);
    }
  }
  return devices;
}

DeviceClock::Losses DeviceClock::losses() {
  const std::lock_guard lock(mutex_);
  return {join_.unmatched(), join_.dropped()};
}

std::string DeviceClock::warnings() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& warning : timeline_.status().warnings) {
    text += (text.empty() ? "" : "; ") + warning;
  }
  return text;
}

}  // namespace headscope
