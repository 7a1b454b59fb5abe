#include "correlate/live_join.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "correlate/correlate.h"
#include "correlate/device_times.h"
#include "correlate/launch_owners.h"
#include "correlate/lone_call.h"

namespace headscope::correlate {
namespace {

using records::AttentionCall;
using records::DeviceActivity;
using records::Launch;

CallWindow window_of(const AttentionCall& call) {
  return {.thread = call.device_ops.thread,
          .ops = {},
          .whole = {call.start_ns, call.end_ns},
          .device_ops = call.device_ops,
          .holds_other_work = !call.op->time_is_attention};
}

/// The newest op of each thread that has kernels.
std::unordered_map<std::uint64_t, std::uint64_t> newest_ops(const DeviceActivity& activity) {
  std::unordered_map<std::uint64_t, std::uint64_t> newest;
  for (const Launch& launch : activity.launches) {
    std::uint64_t& op = newest[launch.thread];
    op = std::max(op, launch.op);
  }
  return newest;
}

/// What later calls, or those that still wait, may own.
class Needed {
 public:
  Needed(std::span<AttentionCall* const> calls, const std::vector<bool>& settled) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const records::OpRange& ops = calls[i]->device_ops;
      if (settled[i]) {
        std::uint64_t& done = done_[ops.thread];
        done = std::max(done, ops.last);
      } else {
        const auto [waiting, is_new] = waiting_.try_emplace(ops.thread, ops.outer, calls[i]->start_ns);
        waiting->second.first = std::min(waiting->second.first, ops.outer);
        waiting->second.second = std::min(waiting->second.second, calls[i]->start_ns);
      }
    }
  }

  [[nodiscard]] bool operator()(const Launch& launch) const {
    const auto waiting = waiting_.find(launch.thread);
    if (waiting != waiting_.end() &&
        (launch.op == 0 ? launch.start_ns >= waiting->second.second : launch.op >= waiting->second.first)) {
      return true;
    }
    const auto done = done_.find(launch.thread);
    return launch.op != 0 && (done == done_.end() || launch.op > done->second);
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> done_;  // by thread
  std::unordered_map<std::uint64_t, std::pair<std::uint64_t, std::int64_t>> waiting_;
};

}  // namespace

void LiveJoin::add(DeviceActivity&& activity) {
  activity_.spans.insert(activity_.spans.end(), activity.spans.begin(), activity.spans.end());
  activity_.launches.insert(activity_.launches.end(), activity.launches.begin(), activity.launches.end());
  dropped_ += activity.dropped;
}

std::vector<bool> LiveJoin::settle(std::span<AttentionCall* const> calls, bool all) {
  std::vector<CallWindow> windows;
  windows.reserve(calls.size());
  std::ranges::transform(calls, std::back_inserter(windows),
                         [](const AttentionCall* call) { return window_of(*call); });
  const Correlated correlated = correlate(windows, activity_);
  const auto newest = newest_ops(activity_);

  std::vector<bool> settled(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const records::DeviceWork* work = correlated.calls[i].get();
    const auto later = newest.find(calls[i]->device_ops.thread);
    const bool complete = work != nullptr && work->attention_ns >= 0 && later != newest.end() &&
                          later->second > calls[i]->device_ops.last;
    if (all || complete) {
      settled[i] = true;
      set_device_times(*calls[i], correlated.calls[i], calls[i]->op->kernel != records::Kernel::kFused);
    }
  }

  std::vector<bool> needed(activity_.spans.size(), false);
  const LaunchIndex launches(activity_.launches);
  const Needed is_needed(calls, settled);
  for (std::size_t i = 0; i < activity_.spans.size(); ++i) {
    const std::uint32_t launch = launches.find(activity_.spans[i].correlation);
    if (launch == LaunchIndex::kNone) {
      ++unmatched_;
    } else {
      needed[i] = !all && is_needed(activity_.launches[launch]);
    }
  }
  for (const LoneKernel& lone : correlated.lone) {
    if (!needed[static_cast<std::size_t>(lone.span - activity_.spans.data())]) {
      lone_.push_back(call_of(lone));
    }
  }
  forget(needed);
  return settled;
}

void LiveJoin::forget(const std::vector<bool>& span_is_needed) {
  std::unordered_set<std::uint32_t> correlations;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < activity_.spans.size(); ++i) {
    if (span_is_needed[i]) {
      correlations.insert(activity_.spans[i].correlation);
      activity_.spans[kept++] = activity_.spans[i];
    }
  }
  activity_.spans.resize(kept);
  std::erase_if(activity_.launches, [&](const Launch& launch) { return !correlations.contains(launch.correlation); });
}

std::vector<AttentionCall> LiveJoin::take_lone() { return std::exchange(lone_, {}); }

}  // namespace headscope::correlate
