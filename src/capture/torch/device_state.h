#pragma once

#include <vector>

#include "records/attention_call.h"

/// What torch knows of devices and of its own profiler; no torch header.
namespace headscope::capture::torch {

/// Waits until the devices have done what they were given. Those that this torch cannot drive are passed over, and
/// none is waited for where one of them raises.
void wait_for_devices(const std::vector<records::Device>& devices) noexcept;

/// torch.profiler records on the calling thread, or on all of them.
bool torch_profiler_runs() noexcept;

/// First number of the CUDA release that torch was built for; 0: none, or not known.
int torch_cuda_major();

}  // namespace headscope::capture::torch
