#include "headscope/capabilities.h"

#include <string>
#include <utility>

#include "capture/torch/hooks.h"
#include "headscope/stats.h"
#include "process.h"
#include "timeline/cupti/cupti_timeline.h"

namespace headscope {
namespace {

Capability device_clock() {
  timeline::cupti::CuptiTimeline& timeline = timeline::cupti::cupti_timeline();
  const timeline::Status status = timeline.probe(DeviceClock::situation());
  std::string detail = status.text;
  if (status.enabled()) {
    detail = "kernel times through CUPTI (version " + std::to_string(timeline.library_version()) + ", " +
             timeline.library_path() +
             "), with device_timing \"cupti\"; other profilers time ops on a GPU on the host, and their times say "
             "source: host";
  }
  return {.name = "device_clock", .available = status.enabled(), .detail = std::move(detail)};
}

}  // namespace

std::vector<Capability> capabilities() {
  std::vector<Capability> all = {
      {.name = "host_clock", .available = true, .detail = "CLOCK_MONOTONIC around each attention op"},
      device_clock(),
      {.name = "memory",
       .available = true,
       .detail = "allocations inside each attention op, from torch's memory reporting; unknown for a call made while "
                 "torch.profiler holds that place"},
      {.name = "eager",
       .available = true,
       .detail = "hand-written attention by matmul, bmm and einsum with softmax; Eager::kDetail adds the ops between"},
  };
  for (NotObservable& missing : capture::torch::not_observable()) {
    all.push_back({.name = std::move(missing.what), .available = false, .detail = std::move(missing.reason)});
  }
  return all;
}

}  // namespace headscope
