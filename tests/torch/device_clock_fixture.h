#pragma once

// Real ops timed by the device clock: a libcupti without a device tells what they "launched". For one file of an
// executable, since it registers kernels.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <ATen/record_function.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "headscope/headscope.h"
#include "support/fake_cupti/control.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
inline constexpr std::uint64_t kTicks = 1'000;  // a kernel of the fake, in ns

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline std::int64_t g_inside_ns = 0;  // when the last call of launching_attention ran

inline void launch(const char* name) {
  FakeLaunch what;
  what.name = name;
  fake_cupti_launch(&what);
}

// Ids as CUPTI makes them: the graph's in the upper half. What is known of a node outlives a test.
inline std::uint64_t g_graph = 1;
inline std::uint64_t g_captured_nodes = 0;

inline void capture_node() { fake_cupti_capture_node(g_graph << 32 | ++g_captured_nodes); }

/// The nodes of the graph in its executable.
inline std::vector<std::uint64_t> instantiate() {
  std::vector<std::uint64_t> originals;
  std::vector<std::uint64_t> copies;
  for (std::uint64_t i = 1; i <= g_captured_nodes; ++i) {
    originals.push_back(g_graph << 32 | i);
    copies.push_back((g_graph + 1) << 32 | i);
  }
  fake_cupti_instantiate(originals.data(), copies.data(), copies.size());
  return copies;
}

inline void replay(const std::vector<std::uint64_t>& nodes) {
  fake_cupti_replay(static_cast<std::uint32_t>(g_graph + 1), nodes.data(), nodes.size());
}

inline at::Tensor launching_attention(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                                      std::int64_t kernels) {
  // Below 0: the call is captured, and these are its nodes.
  for (std::int64_t i = 0; i < -kernels; ++i) {
    capture_node();
  }
  for (std::int64_t i = 0; i < kernels; ++i) {
    launch("attention_kernel");
  }
  g_inside_ns = now_ns();
  return q.clone();
}

inline bool g_capture_products = false;

inline void launch_or_capture(const char* name) {
  if (g_capture_products) {
    capture_node();
  } else {
    launch(name);
  }
}

// Kernels of bmm and softmax that launch, computed by other ops.
inline at::Tensor launching_bmm(const at::Tensor& a, const at::Tensor& b) {
  launch_or_capture("gemm");
  return at::sum(at::mul(a.unsqueeze(3), b.unsqueeze(1)), 2);
}

inline at::Tensor launching_softmax(const at::Tensor& x, std::int64_t dim, bool /*half_to_float*/) {
  launch_or_capture("softmax");
  const at::Tensor raised = at::exp(x);
  return at::div(raised, at::sum(raised, dim, true));
}

TORCH_LIBRARY(headscope_device_test, library) {
  library.def("attention(Tensor q, Tensor k, Tensor v, int kernels) -> Tensor");
}
TORCH_LIBRARY_IMPL(headscope_device_test, CPU, library) { library.impl("attention", launching_attention); }
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("bmm", launching_bmm);
  library.impl("_softmax", launching_softmax);
}

inline void attend_with(std::int64_t kernels) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("headscope_device_test::attention", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t)>();
  const at::Tensor x = at::ones({1, 2, 4, 8});
  op.call(x, x, x, kernels);
}

/// QKᵀ, a scale, softmax, PV; `glue` runs with the scale.
template <class Glue>
void eager_attention(Glue&& glue) {
  const at::Tensor x = at::ones({2, 4, 8});
  const at::Tensor scores = at::bmm(x, x.transpose(1, 2));
  glue();
  at::bmm(at::_softmax(scores, 2, false), x);
}

class DeviceClock : public ::testing::Test {
 protected:
  void SetUp() override {
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet
    setenv("HEADSCOPE_CUPTI_LIBRARY", HEADSCOPE_FAKE_CUPTI, 1);
    setenv("HEADSCOPE_CUDA_DRIVER_LIBRARY", HEADSCOPE_FAKE_CUDA, 1);
    // NOLINTEND(concurrency-mt-unsafe)
    fake_cupti_reset();
    g_captured_nodes = 0;
    g_graph += 2;
    follow_torch_profiler();
    fake_cuda_set(0, 1, 0, 13000);
    register_mine("headscope_device_test::attention");
  }

  static Options options() { return {.device_timing = DeviceTiming::kCupti, .keep_calls = 100}; }
};

}  // namespace headscope::torch_tests
