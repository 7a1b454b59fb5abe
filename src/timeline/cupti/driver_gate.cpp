#include "timeline/cupti/driver_gate.h"

#include <dlfcn.h>

#include <cstdlib>

namespace headscope::timeline::cupti {
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

template <class Function>
void resolve(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

Driver find_driver() {
  const char* path = std::getenv("HEADSCOPE_CUDA_DRIVER_LIBRARY");  // NOLINT(concurrency-mt-unsafe): only read
  const bool given = path != nullptr && path[0] != '\0';
  void* library = given ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
                        : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
  Driver driver;
  if (library != nullptr) {
    resolve(driver.init, library, "cuInit");
    resolve(driver.device_count, library, "cuDeviceGetCount");
    resolve(driver.version, library, "cuDriverGetVersion");
  }
  return driver;
}

DriverState check_driver(const Driver& driver) {
  if (driver.init == nullptr || driver.device_count == nullptr) {
    return {Reason::kNoDriver, "CUDA is not initialised in this process: no NVIDIA driver is loaded", 0};
  }
  const int initialised = driver.init(0);
  if (initialised == kNoDevice) {
    return {Reason::kNoDevice, "the NVIDIA driver sees no device (cuInit returned 100)", 0};
  }
  if (initialised != 0) {
    return {Reason::kDriverFailed, "the NVIDIA driver failed: cuInit returned " + std::to_string(initialised), 0};
  }
  int devices = 0;
  if (const int result = driver.device_count(&devices); result != 0) {
    return {Reason::kDriverFailed, "the NVIDIA driver failed: cuDeviceGetCount returned " + std::to_string(result), 0};
  }
  if (devices < 1) {
    return {Reason::kNoDevice, "the NVIDIA driver sees no device", 0};
  }
  int version = 0;  // 1000 · major + 10 · minor
  if (driver.version == nullptr || driver.version(&version) != 0) {
    version = 0;
  }
  return {Reason::kNone, "", version / 1000};
}

}  // namespace headscope::timeline::cupti
