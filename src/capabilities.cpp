#include "headscope/capabilities.h"

#include <utility>

#include "capture/torch/hooks.h"
#include "headscope/stats.h"
#include "timeline/cupti/driver_gate.h"

namespace headscope {

std::vector<Capability> capabilities() {
  const timeline::cupti::DriverState driver = timeline::cupti::check_driver(timeline::cupti::find_driver());
  const bool has_driver = driver.reason == timeline::Reason::kNone;
  std::vector<Capability> all = {
      {.name = "host_clock", .available = true, .detail = "CLOCK_MONOTONIC around each attention op"},
      {.name = "device_clock",
       .available = has_driver,
       .detail = has_driver
                     ? "kernel times through CUPTI, with device_timing \"cupti\"; other profilers time ops on a GPU "
                       "on the host, and their times say source: host"
                     : driver.text},
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
