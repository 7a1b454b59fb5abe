#include "headscope/torch_profiler.h"

#include <algorithm>
#include <utility>

#include "capture/torch/scope_memory.h"
#include "process.h"
#include "timeline/cupti/name_table.h"

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

}  // namespace

void follow_torch_profiler() noexcept { DeviceClock::follow_torch_profiler(); }

void torch_profiler_starts() noexcept {
  capture::torch::leave_memory_reports();
  DeviceClock::note_torch_profiler();
  if (DeviceClock* clock = device_clock_if_made()) {
    clock->hand_over();
  }
}

bool torch_profiler_is_awaited() noexcept {
  DeviceClock* clock = device_clock_if_made();
  return clock != nullptr && clock->handed_over();
}

void torch_profiler_ended(const std::vector<TorchProfilerEvent>& events) noexcept {
  DeviceClock* clock = device_clock_if_made();
  if (clock == nullptr) {
    return;
  }
  try {
    clock->take_back(activity_of(events));
  } catch (...) {
    clock->take_back({});  // out of memory: the calls have no times
  }
}

}  // namespace headscope
