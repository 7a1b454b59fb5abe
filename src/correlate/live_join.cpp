#include "correlate/live_join.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "correlate/correlate.h"
#include "correlate/device_times.h"
#include "correlate/launch_owners.h"
#include "correlate/lone_call.h"
#include "correlate/op_owners.h"

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

/// One execution of a captured call.
AttentionCall replayed(const AttentionCall& captured, const Replay& replay) {
  AttentionCall call = captured;
  call.sessions = 0;
  call.device_ops = {};
  call.start_ns = replay.spans.front()->start_ns;
  call.end_ns = replay.spans.back()->end_ns;
  // What the capture allocated is the graph's own; a replay allocates nothing that torch would report.
  call.allocated_bytes = call.peak_bytes = call.score_bytes = -1;
  call.found.reset();
  set_device_times(call, replay.work, call.op->kernel != records::Kernel::kFused);
  return call;
}

/// What later calls, or those that still wait, may own.
class Needed {
 public:
  Needed(std::span<AttentionCall* const> calls, const std::vector<LiveJoin::Settled>& settled) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const records::OpRange& ops = calls[i]->device_ops;
      if (settled[i] != LiveJoin::Settled::kNo) {
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
  activity_.captures.insert(activity_.captures.end(), activity.captures.begin(), activity.captures.end());
  dropped_ += activity.dropped;
}

/// Counts each window's nodes of graphs.
void LiveJoin::claim_captures(std::span<AttentionCall* const> calls, std::span<CallWindow> windows) {
  if (activity_.captures.empty()) {
    return;
  }
  const OpOwners owners(windows);
  std::erase_if(activity_.captures, [&](const records::Capture& capture) {
    const LaunchOwner owner = owners.of(capture);
    if (owner.call == LaunchOwner::kNone || captured_.size() + calls.size() > kMostCaptured) {
      return false;
    }
    ++windows[owner.call].captured_nodes;
    return true;
  });
  // Those of no call, which are most of a graph; some may be of a call that is not done yet.
  if (activity_.captures.size() > kMostCaptured) {
    activity_.captures.erase(activity_.captures.begin(),
                             activity_.captures.end() - static_cast<std::ptrdiff_t>(kMostCaptured));
  }
}

std::vector<LiveJoin::Settled> LiveJoin::settle(std::span<AttentionCall* const> calls, bool all) {
  std::vector<CallWindow> windows;
  windows.reserve(calls.size());
  std::ranges::transform(calls, std::back_inserter(windows),
                         [](const AttentionCall* call) { return window_of(*call); });
  claim_captures(calls, windows);
  std::vector<Settled> settled(calls.size(), Settled::kNo);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (windows[i].captured_nodes != 0) {
      settled[i] = Settled::kCaptured;
      captured_.push_back(*calls[i]);
      captured_windows_.push_back(windows[i]);
    }
  }
  const Correlated correlated = correlate(windows, activity_, captured_windows_);
  const auto newest = newest_ops(activity_);

  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (settled[i] == Settled::kCaptured) {
      continue;
    }
    const records::DeviceWork* work = correlated.calls[i].get();
    const auto later = newest.find(calls[i]->device_ops.thread);
    const bool complete = work != nullptr && work->attention_ns >= 0 && later != newest.end() &&
                          later->second > calls[i]->device_ops.last;
    if (all || complete) {
      settled[i] = Settled::kYes;
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
  const auto index_of = [this](const records::DeviceSpan* span) {
    return static_cast<std::size_t>(span - activity_.spans.data());
  };
  for (const Replay& replay : correlated.replays) {
    const bool done = all || replay.all_there;
    for (const records::DeviceSpan* span : replay.spans) {
      needed[index_of(span)] = !done;
    }
    if (done) {
      found_.push_back({replayed(captured_[replay.call], replay), replay.call});
    }
  }
  for (const LoneKernel& lone : correlated.lone) {
    if (!needed[index_of(lone.span)]) {
      found_.push_back({call_of(lone), Found::kNone});
    }
  }
  for (std::size_t i = 0; i < activity_.spans.size(); ++i) {
    const records::DeviceSpan& span = activity_.spans[i];
    of_unknown_graphs_ += !needed[i] && span.graph_node != 0 && !span.capture.known() ? 1 : 0;
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

std::vector<LiveJoin::Found> LiveJoin::take_found() { return std::exchange(found_, {}); }

}  // namespace headscope::correlate
