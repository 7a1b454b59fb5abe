#include "device_clock.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "capture/torch/device_state.h"
#include "capture/torch/hooks.h"
#include "correlate/op_times.h"

namespace headscope {
namespace {

// Of the process, whether or not there is a device clock so far.
std::atomic<bool> g_follows_torch_profiler{false};
std::atomic<bool> g_torch_profiler_used{false};

/// Calls that may wait for torch.profiler's results.
constexpr std::size_t kMostRiding = 65'536;

constexpr const char* kAskedTooEarly =
    "figures were asked for while torch.profiler had CUPTI: calls made until then have no time. Ask after it ended, "
    "or read its exported trace with read_trace";

constexpr records::DeviceType kWithEvents = records::DeviceType::kCuda;

/// Events know of no kernels, nor of what ran between the ops of a chain.
void keep_time_only(records::AttentionCall& call) {
  call.time_source = TimeSource::kEvents;
  call.glue_ns = call.other_ns = -1;
  call.device_work.reset();
}

void to_monotonic(records::DeviceActivity& activity, const timeline::RealtimeToMonotonic& convert) {
  const auto shift = [&convert](std::int64_t& start_ns, std::int64_t& end_ns) {
    const std::int64_t duration = end_ns - start_ns;
    start_ns = convert(start_ns);
    end_ns = start_ns + duration;
  };
  for (records::DeviceSpan& span : activity.spans) {
    shift(span.start_ns, span.end_ns);
  }
  for (records::Launch& launch : activity.launches) {
    shift(launch.start_ns, launch.end_ns);
  }
}

}  // namespace

DeviceClock::DeviceClock(timeline::DeviceTimeline& timeline, session::Collector& collector)
    : timeline_(timeline), collector_(collector) {
  capture::torch::observe_ops(timeline_);
}

void DeviceClock::follow_torch_profiler() noexcept { g_follows_torch_profiler = true; }
void DeviceClock::note_torch_profiler() noexcept { g_torch_profiler_used = true; }

timeline::Situation DeviceClock::situation() {
  timeline::Situation situation;
  situation.torch_profiler_running = capture::torch::torch_profiler_runs();
  situation.torch_profiler_used = g_torch_profiler_used;
  // Needs CUPTI's subscriber, which a torch.profiler that starts without a word would find taken.
  situation.graphs = g_follows_torch_profiler;
  situation.cuda_major = capture::torch::torch_cuda_major();
  return situation;
}

timeline::Status DeviceClock::start_timeline() {
  timeline::Status status = timeline_.start(situation());
  source_ = status.enabled() ? Source::kTimeline : Source::kNone;
  return status;
}

void DeviceClock::bring_in() { join_.add(source_ == Source::kEvents ? events_.take() : timeline_.take()); }

void DeviceClock::end_source() {
  timeline_.stop();
  bring_in();
  source_ = Source::kNone;
  take_pending();
  fold_settled(true);
}

void DeviceClock::begin_log() {
  log_begin_ = timeline::read_host_clocks();
  log_.begin();
  capture::torch::observe_ops(log_);
  source_ = Source::kTorchProfiler;
}

void DeviceClock::begin_events() {
  events_.begin();
  capture::torch::observe_ops(events_);
  source_ = Source::kEvents;
  by_events_ = true;
}

timeline::Status DeviceClock::join(Want want) {
  const std::lock_guard lock(mutex_);
  timeline::Status status;
  status.reason = timeline::Reason::kNone;
  if (users_ > 0) {
    ++users_;
    return status;
  }
  problem_.clear();
  by_events_ = false;
  const bool has_events = capture::torch::DeviceEvents::available();
  if (want == Want::kEvents) {
    if (has_events) {
      begin_events();
    } else {
      status = {timeline::Reason::kNoDevice, "this torch sees no CUDA device whose events could time calls", {}};
    }
  } else if (g_follows_torch_profiler && capture::torch::torch_profiler_runs()) {
    begin_log();
  } else {
    status = start_timeline();
    if (!status.enabled() && has_events) {
      problem_ = "CUDA events around each op instead of kernel records: " + status.text;
      status = {timeline::Reason::kNone, "", {}};
      begin_events();
    }
  }
  users_ += status.enabled() ? 1 : 0;
  return status;
}

void DeviceClock::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (users_ == 0 || --users_ > 0) {
    return;
  }
  try {
    end_source();
    events_.end();
    log_.end();
    capture::torch::observe_ops(timeline_);
  } catch (...) {
    waiting_.clear();  // out of memory
  }
}

void DeviceClock::hand_over() noexcept {
  const std::lock_guard lock(mutex_);
  if (users_ == 0 || source_ == Source::kTorchProfiler || source_ == Source::kEvents) {
    return;
  }
  try {
    take_pending();
    capture::torch::wait_for_devices(devices());
    end_source();
    begin_log();
  } catch (...) {
    waiting_.clear();  // out of memory
  }
}

bool DeviceClock::handed_over() noexcept {
  const std::lock_guard lock(mutex_);
  return source_ == Source::kTorchProfiler;
}

void DeviceClock::take_back(records::DeviceActivity&& activity) noexcept {
  const std::lock_guard lock(mutex_);
  if (source_ != Source::kTorchProfiler) {
    return;
  }
  try {
    to_monotonic(activity, {log_begin_, timeline::read_host_clocks()});
    correlate::name_ops_of(activity.launches, log_.end());
    capture::torch::observe_ops(timeline_);
    source_ = Source::kNone;
    join_.add(std::move(activity));
    take_pending();
    fold_settled(true);
    if (const timeline::Status status = start_timeline(); !status.enabled()) {
      problem_ = "calls after torch.profiler ended have no time: " + status.text;
    }
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
    if (source_ == Source::kTorchProfiler) {
      // Its results come when it ends.
      if (!waiting_.empty() && (wait == Wait::kYes || waiting_.size() >= kMostRiding)) {
        problem_ = kAskedTooEarly;
        fold_settled(true);
      }
      return;
    }
    if (wait == Wait::kYes) {
      capture::torch::wait_for_devices(devices());
    }
    timeline_.flush();
    bring_in();
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
  std::vector<session::PendingCall> ready;
  if (by_events_) {
    // An event on the CPU would be a reading of the host's clock.
    const auto on_host = std::ranges::stable_partition(
        waiting_, [](const session::PendingCall& pending) { return pending.call.device.type == kWithEvents; });
    std::ranges::move(on_host, std::back_inserter(ready));
    waiting_.erase(on_host.begin(), on_host.end());
  }
  std::vector<records::AttentionCall*> calls;
  calls.reserve(waiting_.size());
  std::ranges::transform(waiting_, std::back_inserter(calls),
                         [](session::PendingCall& pending) { return &pending.call; });
  using Settled = correlate::LiveJoin::Settled;
  const std::vector<Settled> settled = join_.settle(calls, all);

  std::vector<session::PendingCall> rest;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (settled[i] == Settled::kCaptured) {
      captured_by_.push_back(waiting_[i].thread);
    } else {
      if (by_events_ && settled[i] == Settled::kYes) {
        keep_time_only(waiting_[i].call);
      }
      (settled[i] == Settled::kYes ? ready : rest).push_back(std::move(waiting_[i]));
    }
  }
  waiting_ = std::move(rest);
  for (correlate::LiveJoin::Found& found : join_.take_found()) {
    ready.push_back(collector_.pending_of(std::move(found.call)));
    if (found.captured != correlate::LiveJoin::Found::kNone) {
      ready.back().thread = captured_by_[found.captured];
    }
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

std::string_view DeviceClock::mode() {
  const std::lock_guard lock(mutex_);
  return by_events_ ? "events" : "cupti";
}

DeviceClock::Counts DeviceClock::counts() {
  const std::lock_guard lock(mutex_);
  return {join_.unmatched(), join_.dropped(), captured_by_.size(), join_.of_unknown_graphs()};
}

std::string DeviceClock::warnings() {
  const std::lock_guard lock(mutex_);
  std::string text = problem_;
  for (const std::string& warning : timeline_.status().warnings) {
    text += (text.empty() ? "" : "; ") + warning;
  }
  return text;
}

}  // namespace headscope
