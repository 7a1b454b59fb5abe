#include "headscope/capabilities.h"

#include <utility>

#include "capture/torch/hooks.h"
#include "headscope/stats.h"

namespace headscope {

std::vector<Capability> capabilities() {
  std::vector<Capability> all = {
      {.name = "host_clock", .available = true, .detail = "CLOCK_MONOTONIC around each attention op"},
      {.name = "device_clock",
       .available = false,
       .detail = "this build reads no device clock (CUPTI); ops on a GPU are timed on the host, and their times say "
                 "source: host"},
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
