#pragma once

#include <string>

#include "timeline/device_timeline.h"

/// libcupti crashes or fails in all its functions where no driver works, so the driver is asked first.
namespace headscope::timeline::cupti {

/// The functions of a libcuda; null where it has none.
struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*version)(int* version) = nullptr;
};

/// The libcuda that this process has loaded, or the one that HEADSCOPE_CUDA_DRIVER_LIBRARY names. Never loads the
/// usual one itself: CUDA that is initialised before a fork does not work in the child.
Driver find_driver();

struct DriverState {
  Reason reason = Reason::kNone;
  std::string text;
  int cuda_major = 0;  ///< newest release that the driver serves
};

DriverState check_driver(const Driver& driver);

}  // namespace headscope::timeline::cupti
