#include "capture/torch/device_state.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <charconv>
#include <string>

#include "capture/torch/hooks.h"

namespace headscope::capture::torch {
namespace {

c10::DeviceType torch_type(records::DeviceType type) noexcept {
  switch (type) {
    case records::DeviceType::kCuda:
      return c10::DeviceType::CUDA;
    case records::DeviceType::kXpu:
      return c10::DeviceType::XPU;
    case records::DeviceType::kCpu:
    case records::DeviceType::kOther:
      break;
  }
  return c10::DeviceType::CPU;
}

}  // namespace

void wait_for_devices(const std::vector<records::Device>& devices) noexcept {
  try {
    for (const records::Device& device : devices) {
      const c10::DeviceType type = torch_type(device.type);
      if (type != c10::DeviceType::CPU && device.index >= 0 && c10::impl::hasDeviceGuardImpl(type)) {
        c10::impl::getDeviceGuardImpl(type)->synchronizeDevice(device.index);
      }
    }
  } catch (...) {
    return;  // an earlier error of the device, which the program meets at its own next call
  }
}

bool torch_profiler_runs() noexcept {
  return ::torch::profiler::impl::profilerType() != ::torch::profiler::impl::ActiveProfilerType::NONE;
}

int torch_cuda_major() {
  const std::string version = torch_version();
  const std::size_t at = version.find("+cu");
  int release = 0;  // 130 for 13.0
  if (at != std::string::npos) {
    std::from_chars(version.data() + at + 3, version.data() + version.size(), release);
  }
  return release / 10;
}

}  // namespace headscope::capture::torch
