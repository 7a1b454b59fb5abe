#include "headscope/torch_profiler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "capture/layers.h"
#include "capture/torch/hooks.h"
#include "capture/torch/scope_memory.h"
#include "model/work.h"
#include "process.h"
#include "timeline/cupti/name_table.h"
#include "timeline/host_clock.h"

namespace headscope {
namespace {

using Kind = TorchProfilerEvent::Kind;

records::DeviceSpan::Kind span_kind(Kind kind) {
  switch (kind) {
    case Kind::kMemcpy:
      return records::DeviceSpan::Kind::kMemcpy;
    case Kind::kMemset:
      return records::DeviceSpan::Kind::kMemset;
    case Kind::kLaunch:
    case Kind::kKernel:
      break;
  }
  return records::DeviceSpan::Kind::kKernel;
}

records::DeviceActivity activity_of(const std::vector<TorchProfilerEvent>& events) {
  records::DeviceActivity activity;
  for (const TorchProfilerEvent& event : events) {
    if (event.kind == Kind::kLaunch) {
      records::Launch& launch = activity.launches.emplace_back();
      launch.correlation = event.correlation;
      launch.thread = event.thread;
      launch.start_ns = event.start_ns;
      launch.end_ns = event.end_ns;
      launch.of_graph = event.name.find("GraphLaunch") != std::string::npos;
      continue;
    }
    records::DeviceSpan& span = activity.spans.emplace_back();
    span.kind = span_kind(event.kind);
    span.device = {records::DeviceType::kCuda, static_cast<std::int8_t>(std::clamp(event.device, -1, 127))};
    span.stream = event.stream;
    span.correlation = event.correlation;
    span.start_ns = event.start_ns;
    span.end_ns = event.end_ns;
    span.name = timeline::cupti::name_table().intern(event.name.c_str());
  }
  return activity;
}

TorchProfilerCall track_of(const session::LoggedCall& logged, std::int64_t lead_ns) {
  const records::AttentionCall& call = logged.call;
  const records::CostedCall costed = model::cost(call, 1);
  TorchProfilerCall track;
  if (const auto* layer = call.layer.label == 0 ? nullptr : capture::layer_info(call.layer.label)) {
    track.layer = layer->name;
  }
  track.variant = call.op->variant;
  track.direction = to_string(call.direction);
  track.thread = logged.thread;
  track.start_ns = call.start_ns + lead_ns;
  track.end_ns = call.end_ns + lead_ns;
  track.batch = call.geometry.batch;
  track.heads = call.geometry.heads;
  track.q_len = call.geometry.q_len;
  track.kv_len = call.geometry.kv_len;
  track.head_dim = call.geometry.head_dim;
  track.flops = costed.flops;
  track.bytes = costed.bytes;
  return track;
}

}  // namespace

void follow_torch_profiler() noexcept { DeviceClock::follow_torch_profiler(); }

void torch_profiler_starts() noexcept {
  capture::torch::leave_memory_reports();
  DeviceClock::note_torch_profiler();
  if (session::Collector* collector = collector_if_made()) {
    capture::torch::flush_this_thread();
    collector->begin_log();
  }
  if (DeviceClock* clock = device_clock_if_made()) {
    clock->hand_over();
  }
}

bool torch_profiler_is_awaited() noexcept {
  DeviceClock* clock = device_clock_if_made();
  return clock != nullptr && clock->handed_over();
}

std::vector<TorchProfilerCall> torch_profiler_ended(const std::vector<TorchProfilerEvent>& events) {
  std::vector<session::LoggedCall> logged;
  if (session::Collector* collector = collector_if_made()) {
    capture::torch::flush_this_thread();
    logged = collector->end_log();
  }
  if (DeviceClock* clock = device_clock_if_made()) {
    try {
      clock->take_back(activity_of(events));
    } catch (...) {
      clock->take_back({});  // out of memory: the calls have no times
    }
  }
  std::vector<TorchProfilerCall> calls;
  calls.reserve(logged.size());
  const std::int64_t lead_ns = timeline::read_host_clocks().lead_ns;
  std::ranges::transform(logged, std::back_inserter(calls),
                         [lead_ns](const session::LoggedCall& call) { return track_of(call, lead_ns); });
  return calls;
}

}  // namespace headscope
