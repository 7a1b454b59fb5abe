// A libcuda that has as many devices as a test says.

#include <atomic>

#include "support/fake_cupti/control.h"

#define HEADSCOPE_FAKE extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int> g_init_result{0};
std::atomic<int> g_devices{1};
std::atomic<int> g_count_result{0};
std::atomic<int> g_version{13000};
std::atomic<int> g_inits{0};

}  // namespace

HEADSCOPE_FAKE int cuInit(unsigned) {
  ++g_inits;
  return g_init_result;
}

HEADSCOPE_FAKE int cuDeviceGetCount(int* count) {
  *count = g_devices;
  return g_count_result;
}

HEADSCOPE_FAKE int cuDriverGetVersion(int* version) {
  *version = g_version;
  return 0;
}

HEADSCOPE_FAKE void fake_cuda_set(int init_result, int devices, int count_result, int version) {
  g_init_result = init_result;
  g_devices = devices;
  g_count_result = count_result;
  g_version = version;
}

HEADSCOPE_FAKE int fake_cuda_inits() { return g_inits; }
