#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aggregate/aggregate.h"
#include "aggregate/snapshot.h"
#include "aggregate/step_series.h"
#include "capture/layers.h"
#include "capture/trace/trace_calls.h"
#include "correlate/correlate.h"
#include "correlate/device_times.h"
#include "correlate/lone_call.h"
#include "headscope/error.h"
#include "headscope/trace.h"
#include "headscope/version.h"
#include "model/work.h"
#include "timeline/trace/trace_file.h"

namespace headscope {
namespace {

using aggregate::LayerKey;
using records::AttentionCall;
using records::TraceRecording;

/// Calls of which nothing tells the layer: kernels without an op, backwards without a forward.
constexpr const char* kUnknownLayer = "(unknown)";

std::string_view word(records::TracePlatform platform) {
  switch (platform) {
    case records::TracePlatform::kCuda:
      return "cuda";
    case records::TracePlatform::kRocm:
      return "rocm";
    case records::TracePlatform::kXpu:
      return "xpu";
    case records::TracePlatform::kUnknown:
      break;
  }
  return "";
}

std::string_view word(records::SkipReason reason) {
  using records::SkipReason;
  switch (reason) {
    case SkipReason::kFlow:
      return "flow";
    case SkipReason::kOtherPhase:
      return "other_phase";
    case SkipReason::kOtherCategory:
      return "other_category";
    case SkipReason::kPythonFunction:
      return "python_function";
    case SkipReason::kHostCall:
      return "host_call";
    case SkipReason::kMalformed:
      return "malformed";
    case SkipReason::kNoTime:
      return "no_time";
    case SkipReason::kNoThread:
      return "no_thread";
    case SkipReason::kNegativeDuration:
      return "negative_duration";
    case SkipReason::kTooLarge:
      return "too_large";
    case SkipReason::kCount:
      break;
  }
  return "unknown";
}

TraceMeta meta_of(const std::string& path, const TraceRecording& recording) {
  TraceMeta meta{.path = path, .platform = std::string(word(recording.platform)), .events = recording.events};
  if (recording.rank >= 0) {
    meta.rank = recording.rank;
  }
  if (recording.world_size >= 0) {
    meta.world_size = recording.world_size;
  }
  for (const records::TraceDevice& device : recording.devices) {
    meta.devices.push_back(device.name);
  }
  for (std::size_t reason = 0; reason < records::kSkipReasons; ++reason) {
    if (recording.skipped[reason] > 0) {
      meta.skipped[std::string(word(static_cast<records::SkipReason>(reason)))] = recording.skipped[reason];
    }
  }
  return meta;
}

/// Gives the calls the times of their kernels.
void set_device_times(std::vector<capture::trace::TraceCall>& calls, const correlate::Correlated& correlated) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    correlate::set_device_times(calls[i].call, correlated.calls[i], calls[i].ops.size() >= 2);
  }
}

correlate::Correlated correlate_calls(const std::vector<capture::trace::TraceCall>& calls,
                                      const records::DeviceActivity& activity) {
  std::vector<correlate::CallWindow> windows;
  windows.reserve(calls.size());
  for (const capture::trace::TraceCall& call : calls) {
    windows.push_back({.thread = call.thread,
                       .ops = call.ops,
                       .whole = call.whole,
                       .holds_other_work = !call.call.op->time_is_attention});
  }
  return correlate::correlate(windows, activity);
}

/// Folds calls into rows, and into steps where the trace has them.
class Folding {
 public:
  Folding(const TraceRecording& recording, const TraceOptions& options)
      : recording_(recording),
        options_(options),
        aggregate_({.per_head = options.per_head, .memory = false, .keep_calls = options.keep_calls}),
        step_sums_(recording.steps.size()) {}

  void add(const AttentionCall& call) {
    const records::CostedCall costed = model::cost(call, options_.decode_max_q);
    const std::optional<std::size_t> step = step_at(call.start_ns);
    aggregate_.add(costed, layer_of(call, step), step ? recording_.steps[*step].number : 0);
    if (step) {
      step_sums_[*step].add(costed, false);
    }
  }

  [[nodiscard]] const aggregate::Aggregate& rows() const noexcept { return aggregate_; }
  [[nodiscard]] std::vector<StepPoint> steps() const {
    aggregate::StepSeries series;
    for (std::size_t i = 0; i < step_sums_.size(); ++i) {
      const records::StepSpan& step = recording_.steps[i];
      series.add(step.number, step.end_ns - step.start_ns, step_sums_[i]);
    }
    return series.points();
  }

 private:
  [[nodiscard]] std::optional<std::size_t> step_at(std::int64_t time_ns) const {
    const std::vector<records::StepSpan>& steps = recording_.steps;
    const auto after = std::ranges::upper_bound(steps, time_ns, {}, &records::StepSpan::start_ns);
    if (after == steps.begin() || time_ns >= std::prev(after)->end_ns) {
      return std::nullopt;
    }
    return static_cast<std::size_t>(std::prev(after) - steps.begin());
  }

  LayerKey layer_of(const AttentionCall& call, std::optional<std::size_t> step) {
    if (call.layer.label != 0) {
      return {LayerKey::Kind::kLabel, call.layer.label};
    }
    if (call.layer.order == records::LayerRef::kUnknownOrder) {
      return {LayerKey::Kind::kLabel, intern_layer({.name = kUnknownLayer})};
    }
    // A backward has the number of its forward, which came before it.
    const auto [known, is_new] = numbers_.try_emplace({call.layer.thread, call.layer.order});
    if (is_new) {
      const std::size_t in_step = step ? *step + 1 : 0;
      known->second = unnamed_[{call.layer.thread, in_step}]++;
    }
    if (known->second < aggregate::kMaxUnnamedLayers) {
      return {LayerKey::Kind::kNumber, known->second};
    }
    return {};
  }

  const TraceRecording& recording_;
  const TraceOptions& options_;
  aggregate::Aggregate aggregate_;
  std::vector<aggregate::StepSums> step_sums_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> numbers_;  // of (thread, order)
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> unnamed_;    // by (thread, step)
};

void fill_time(const TraceRecording& recording, const correlate::Correlated& correlated, TimeSection& time) {
  time.wall = Nanoseconds(recording.end_ns - recording.start_ns);
  time.steps = static_cast<std::int64_t>(recording.steps.size());
  if (time.wall.count() > 0) {
    const auto wall = static_cast<double>(time.wall.count());
    time.attention_share = static_cast<double>(time.attention.count()) / wall;
    time.recompute_share = static_cast<double>(time.recompute.count()) / wall;
  }
  if (correlated.device_idle_ns) {
    time.device_idle = Nanoseconds(*correlated.device_idle_ns);
  } else if (time.attention <= time.wall) {
    time.outside_attention = time.wall - time.attention;
  }
}

void note(Stats& stats, std::uint64_t count, const char* what, const char* reason) {
  if (count > 0) {
    stats.diagnostics.not_observable.push_back(
        {.what = "FLOPs and bytes of " + std::to_string(count) + what, .reason = reason});
  }
}

void fill_diagnostics(const TraceRecording& recording, const capture::trace::TraceCalls& calls,
                      const correlate::Correlated& correlated, Stats& stats) {
  const records::DeviceActivity& activity = recording.device_activity;
  Diagnostics& diagnostics = stats.diagnostics;
  diagnostics.chains_unfinished = calls.unfinished_chains;
  if (activity.spans.empty()) {
    diagnostics.device_timing_mode = "host";
    diagnostics.device_timing_reason = "the trace holds no work of a device";
  } else {
    diagnostics.device_timing_mode = "trace";
    diagnostics.device_timing_reason = "kernel records of the trace";
    diagnostics.kernels_unmatched = correlated.spans_without_launch;
    diagnostics.records_dropped = activity.dropped;
  }
  const auto in_graphs =
      static_cast<std::uint64_t>(std::ranges::count(correlated.lone, true, &correlate::LoneKernel::in_graph));
  note(stats, calls.without_shapes, " calls", "the trace has no shapes of them; record_shapes=True records them");
  note(stats, in_graphs, " attention kernels in replayed graphs",
       "a replay names no op, so that their shapes are unknown");
  note(stats, correlated.lone.size() - in_graphs, " attention kernels without an op",
       "the recording began after their launch, or their library bypasses the dispatcher");
}

}  // namespace

Stats read_trace(const std::string& path, const TraceOptions& options) {
  if (options.decode_max_q < 1) {
    throw Error("TraceOptions::decode_max_q is " + std::to_string(options.decode_max_q) +
                "; it is a query length: give 1 or more");
  }
  const TraceRecording recording =
      timeline::trace::read_trace(path, {.keep_inputs = capture::trace::wants_inputs, .progress = options.progress});
  capture::trace::TraceCalls calls = capture::trace::calls_of(recording);
  const correlate::Correlated correlated = correlate_calls(calls.calls, recording.device_activity);
  if (!recording.device_activity.spans.empty()) {
    set_device_times(calls.calls, correlated);
  }

  Folding folding(recording, options);
  for (const capture::trace::TraceCall& call : calls.calls) {
    folding.add(call.call);
  }
  std::uint64_t call_id = calls.calls.size();
  for (const correlate::LoneKernel& lone : correlated.lone) {
    AttentionCall call = correlate::call_of(lone);
    call.call_id = ++call_id;
    folding.add(call);
  }

  Stats stats;
  stats.meta.headscope_version = std::string(kVersion);
  stats.meta.trace = meta_of(path, recording);
  stats.meta.options.memory = Memory::kOff;
  stats.meta.options.per_head = options.per_head;
  stats.meta.options.decode_max_q = options.decode_max_q;
  stats.meta.options.keep_calls = options.keep_calls;
  aggregate::fill_stats(folding.rows(), &capture::layer_info, stats);
  fill_time(recording, correlated, stats.time);
  stats.steps = folding.steps();
  fill_diagnostics(recording, calls, correlated, stats);
  return stats;
}

}  // namespace headscope
