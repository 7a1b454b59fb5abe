// Real ops timed by the device clock: a libcupti without a device tells what they "launched".

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
namespace {

constexpr std::uint64_t kTicks = 1'000;  // a kernel of the fake, in ns

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t g_inside_ns = 0;  // when the last call of launching_attention ran

void launch(const char* name) {
  FakeLaunch what;
  what.name = name;
  fake_cupti_launch(&what);
}

// Ids as CUPTI makes them: the graph's in the upper half. What is known of a node outlives a test.
std::uint64_t g_graph = 1;
std::uint64_t g_captured_nodes = 0;

void capture_node() { fake_cupti_capture_node(g_graph << 32 | ++g_captured_nodes); }

/// The nodes of the graph in its executable.
std::vector<std::uint64_t> instantiate() {
  std::vector<std::uint64_t> originals;
  std::vector<std::uint64_t> copies;
  for (std::uint64_t i = 1; i <= g_captured_nodes; ++i) {
    originals.push_back(g_graph << 32 | i);
    copies.push_back((g_graph + 1) << 32 | i);
  }
  fake_cupti_instantiate(originals.data(), copies.data(), copies.size());
  return copies;
}

void replay(const std::vector<std::uint64_t>& nodes) {
  fake_cupti_replay(static_cast<std::uint32_t>(g_graph + 1), nodes.data(), nodes.size());
}

at::Tensor launching_attention(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
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

bool g_capture_products = false;

void launch_or_capture(const char* name) {
  if (g_capture_products) {
    capture_node();
  } else {
    launch(name);
  }
}

// Kernels of bmm and softmax that launch, computed by other ops.
at::Tensor launching_bmm(const at::Tensor& a, const at::Tensor& b) {
  launch_or_capture("gemm");
  return at::sum(at::mul(a.unsqueeze(3), b.unsqueeze(1)), 2);
}

at::Tensor launching_softmax(const at::Tensor& x, std::int64_t dim, bool /*half_to_float*/) {
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

void attend_with(std::int64_t kernels) {
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

TEST_F(DeviceClock, TimesACallByItsKernels) {
  const AttentionProfiler profiler(options());
  attend_with(3);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(time_of(stats.total), 3 * kTicks);
  EXPECT_EQ(stats.diagnostics.device_timing_mode, "cupti");
}

TEST_F(DeviceClock, NamesTheKernelsOfARow) {
  const AttentionProfiler profiler(options());
  attend_with(3);
  const std::vector<KernelRow> kernels = only_row(profiler.get_stats()).kernels;
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "attention_kernel");
  EXPECT_EQ(kernels[0].count, 3U);
}

TEST_F(DeviceClock, TellsAChainsGlueFromItsProductsAndItsSoftmax) {
  const AttentionProfiler profiler(options());
  eager_attention([] {
    launch("scale");
    launch("mask");
  });
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(row.variant, "eager");
  EXPECT_EQ(time_of(row), 3 * kTicks);
  EXPECT_EQ(row.glue, Nanoseconds(2 * kTicks));
}

TEST_F(DeviceClock, ProductOfNoChainIsNotThatOfTheChainAroundIt) {
  const AttentionProfiler profiler(options());
  eager_attention([] {
    const at::Tensor other = at::ones({1, 3, 3});
    at::bmm(other, other);
  });
  EXPECT_EQ(time_of(only_row(profiler.get_stats())), 3 * kTicks);
}

TEST_F(DeviceClock, MathPathHasItsProductsApartFromTheRest) {
  const AttentionProfiler profiler(options());
  at::globalContext().setSDPUseFlash(false);
  attend(at::ones({1, 2, 4, 8}));
  at::globalContext().setSDPUseFlash(true);
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(row.variant, "sdpa_math");
  EXPECT_EQ(time_of(row), 3 * kTicks);
}

TEST_F(DeviceClock, WhatRunsOutsideOfCallsIsNoCalls) {
  const AttentionProfiler profiler(options());
  launch("before");
  attend_with(1);
  launch("after");
  EXPECT_EQ(time_of(profiler.get_stats().total), kTicks);
}

TEST_F(DeviceClock, CallThatLaunchedNothingHasNoTime) {
  const AttentionProfiler profiler(options());
  attend_with(0);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  EXPECT_FALSE(stats.total.time);
  EXPECT_EQ(stats.diagnostics.calls_untimed, 1U);
}

TEST_F(DeviceClock, FiguresGoOnAfterTheyWereAskedFor) {
  const AttentionProfiler profiler(options());
  attend_with(1);
  EXPECT_EQ(time_of(profiler.get_stats().total), kTicks);
  attend_with(2);
  EXPECT_EQ(time_of(profiler.get_stats().total), 3 * kTicks);
}

TEST_F(DeviceClock, CallsAreThereAfterTheEnd) {
  AttentionProfiler profiler(options());
  attend_with(2);
  profiler.stop();
  EXPECT_EQ(time_of(profiler.get_stats().total), 2 * kTicks);
}

TEST_F(DeviceClock, TimesTheCallsOfALongRun) {
  const AttentionProfiler profiler(options());
  constexpr int kCalls = 20'000;
  for (int i = 0; i < kCalls; ++i) {
    attend_with(1);
  }
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, static_cast<std::uint64_t>(kCalls));
  EXPECT_EQ(time_of(stats.total), kCalls * static_cast<std::int64_t>(kTicks));
  EXPECT_EQ(stats.diagnostics.calls_untimed, 0U);
}

TEST_F(DeviceClock, TimesTheCallsOfAllThreads) {
  const AttentionProfiler profiler(options());
  constexpr int kCalls = 3'000;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int i = 0; i < kCalls; ++i) {
        attend_with(2);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 4U * kCalls);
  EXPECT_EQ(time_of(stats.total), std::int64_t{8} * kCalls * static_cast<std::int64_t>(kTicks));
}

TEST_F(DeviceClock, StepsHaveTheirOwnKernels) {
  AttentionProfiler profiler(options());
  attend_with(1);
  profiler.step();
  attend_with(3);
  profiler.step();
  const std::vector<StepPoint> steps = profiler.get_stats().steps;
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].forward, Nanoseconds(kTicks));
  EXPECT_EQ(steps[1].forward, Nanoseconds(3 * kTicks));
}

TEST_F(DeviceClock, AnotherProfilerKeepsTheHostsClock) {
  const AttentionProfiler device(options());
  const AttentionProfiler host({.device_timing = DeviceTiming::kHost});
  attend_with(1);
  EXPECT_EQ(time_of(device.get_stats().total), kTicks);
  const Stats stats = host.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  ASSERT_TRUE(stats.total.time);
  EXPECT_EQ(stats.total.time->source, TimeSource::kHost);
}

TEST_F(DeviceClock, CallsBeforeAResetAreGone) {
  AttentionProfiler profiler(options());
  attend_with(1);
  profiler.reset();
  attend_with(2);
  EXPECT_EQ(time_of(profiler.get_stats().total), 2 * kTicks);
}

TEST_F(DeviceClock, OneSessionAfterAnother) {
  for (int session = 1; session <= 5; ++session) {
    const AttentionProfiler profiler(options());
    attend_with(session);
    EXPECT_EQ(time_of(profiler.get_stats().total), session * static_cast<std::int64_t>(kTicks));
  }
}

TEST_F(DeviceClock, AttentionKernelOfNoOpIsACall) {
  const AttentionProfiler profiler(options());
  launch("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(flash::Flash_fwd_params)");
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  EXPECT_EQ(time_of(stats.total), kTicks);
  EXPECT_FALSE(stats.total.flops);
}

TEST_F(DeviceClock, LostRecordsAreCounted) {
  const AttentionProfiler profiler(options());
  attend_with(1);
  fake_cupti_drop(7);
  EXPECT_EQ(profiler.get_stats().diagnostics.records_dropped, 7U);
}

/// What torch's profiler would have recorded of a kernel that this thread launched at `launch_ns`.
std::vector<TorchProfilerEvent> recorded(std::int64_t launch_ns, std::int64_t time_ns, std::uint32_t correlation = 1,
                                         const char* name = "kernel_of_torch") {
  TorchProfilerEvent call;
  call.kind = TorchProfilerEvent::Kind::kLaunch;
  call.name = "cudaLaunchKernel";
  call.correlation = correlation;
  call.thread = at::RecordFunction::currentThreadId();
  call.start_ns = launch_ns;
  call.end_ns = launch_ns + 10;
  TorchProfilerEvent kernel = call;
  kernel.kind = TorchProfilerEvent::Kind::kKernel;
  kernel.name = name;
  kernel.start_ns = launch_ns + 2'000;
  kernel.end_ns = kernel.start_ns + time_ns;
  return {kernel, call};
}

TEST_F(DeviceClock, GivesCuptiUpToTorchsProfilerAndTakesItBack) {
  const AttentionProfiler profiler(options());
  attend_with(1);
  torch_profiler_starts();
  EXPECT_TRUE(torch_profiler_is_awaited());
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
  EXPECT_FALSE(fake_cupti_state().subscribed);
  torch_profiler_ended({});
  EXPECT_FALSE(torch_profiler_is_awaited());
  attend_with(2);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 2U);
  EXPECT_EQ(time_of(stats.total), 3 * kTicks);
}

TEST_F(DeviceClock, TimesCallsByWhatTorchsProfilerRecorded) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  attend_with(0);
  torch_profiler_ended(recorded(g_inside_ns, 5'000));
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(time_of(row), 5'000);
  ASSERT_EQ(row.kernels.size(), 1U);
  EXPECT_EQ(row.kernels[0].name, "kernel_of_torch");
}

TEST_F(DeviceClock, TellsGlueFromProductsInWhatTorchsProfilerRecorded) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  std::int64_t between_ns = 0;
  eager_attention([&] { between_ns = now_ns(); });
  torch_profiler_ended(recorded(between_ns, 700));
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(time_of(row), 0);
  EXPECT_EQ(row.glue, Nanoseconds(700));
}

TEST_F(DeviceClock, LaunchesOfOtherThreadsAreNoCalls) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  attend_with(0);
  std::vector<TorchProfilerEvent> events = recorded(g_inside_ns, 5'000);
  for (TorchProfilerEvent& event : events) {
    event.thread += 1'000;
  }
  torch_profiler_ended(events);
  EXPECT_FALSE(profiler.get_stats().total.time);
}

TEST_F(DeviceClock, CallsThatTorchsProfilerDidNotRecordHaveNoTime) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  attend_with(1);
  torch_profiler_ended({});
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  EXPECT_EQ(stats.diagnostics.calls_untimed, 1U);
}

TEST_F(DeviceClock, FiguresAskedForWhileTorchsProfilerRunsSayWhatTheyMiss) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  attend_with(0);
  const std::int64_t inside_ns = g_inside_ns;
  const Stats early = profiler.get_stats();
  EXPECT_EQ(early.total.calls, 1U);
  EXPECT_FALSE(early.total.time);
  EXPECT_THAT(early.diagnostics.device_timing_reason, ::testing::HasSubstr("torch.profiler"));
  torch_profiler_ended(recorded(inside_ns, 5'000, 1, "flash_fwd_kernel"));
  EXPECT_EQ(profiler.get_stats().total.calls, 1U);
}

TEST_F(DeviceClock, WhereCuptiDoesNotComeBackCallsHaveNoTime) {
  const AttentionProfiler profiler(options());
  torch_profiler_starts();
  fake_cupti_fail("cuptiActivityEnable", 999, 0);
  torch_profiler_ended({});
  attend_with(1);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.diagnostics.calls_untimed, 1U);
  EXPECT_THAT(stats.diagnostics.device_timing_reason, ::testing::HasSubstr("after torch.profiler ended"));
}

TEST_F(DeviceClock, ProfilerThatEndsBesideTorchsLeavesNothing) {
  torch_profiler_starts();
  {
    const AttentionProfiler profiler(options());
    torch_profiler_starts();
    attend_with(1);
  }
  torch_profiler_ended({});
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
  const AttentionProfiler profiler(options());
  attend_with(1);
  EXPECT_EQ(time_of(profiler.get_stats().total), kTicks);
}

TEST_F(DeviceClock, TorchsProfilerHoldingCuptiIdlyIsNoTool) {
  torch_profiler_starts();
  torch_profiler_ended({});
  fake_cupti_hold_subscriber("Kineto");
  const AttentionProfiler profiler(options());
  attend_with(1);
  EXPECT_EQ(time_of(profiler.get_stats().total), kTicks);
}

TEST_F(DeviceClock, CapturedCallRunsWithEachReplay) {
  AttentionProfiler profiler(options());
  {
    const LayerScope layer("decoder.0");
    attend_with(-2);
  }
  const std::vector<std::uint64_t> nodes = instantiate();
  EXPECT_EQ(profiler.get_stats().total.calls, 0U);
  for (int i = 0; i < 3; ++i) {
    replay(nodes);
  }
  const Stats stats = profiler.get_stats();
  const AttentionRow row = only_row(stats);
  EXPECT_EQ(row.layer, "decoder.0");
  EXPECT_EQ(row.calls, 3U);
  EXPECT_EQ(time_of(row), 6 * kTicks);
  EXPECT_EQ(row.flops, 3U * 4 * 1 * 2 * 4 * 4 * 8);  // 4·B·H·Sq·Sk·D a call
  EXPECT_FALSE(row.peak_bytes);
  EXPECT_EQ(stats.diagnostics.calls_captured, 1U);
  EXPECT_EQ(stats.diagnostics.kernels_of_unknown_graphs, 0U);
}

TEST_F(DeviceClock, ReplaysBelongToTheirSteps) {
  AttentionProfiler profiler(options());
  attend_with(-1);
  const std::vector<std::uint64_t> nodes = instantiate();
  profiler.step();
  replay(nodes);
  EXPECT_EQ(profiler.get_stats().total.calls, 1U);
  profiler.step();
  const std::vector<StepPoint> steps = profiler.get_stats().steps;
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].forward, Nanoseconds(kTicks));
}

TEST_F(DeviceClock, CallsOfOneGraphAreApart) {
  AttentionProfiler profiler(options());
  for (const char* name : {"decoder.0", "decoder.1"}) {
    const LayerScope layer(name);
    attend_with(name[8] == '0' ? -1 : -3);
  }
  replay(instantiate());
  const Stats stats = profiler.get_stats();
  ASSERT_EQ(stats.attention_breakdown.size(), 2U);
  for (const AttentionRow& row : stats.attention_breakdown) {
    EXPECT_EQ(time_of(row), (row.layer == "decoder.0" ? 1 : 3) * static_cast<std::int64_t>(kTicks));
  }
}

TEST_F(DeviceClock, GraphOfAnEarlierProfilerIsKnownToTheNext) {
  std::vector<std::uint64_t> nodes;
  {
    const AttentionProfiler first(options());
    attend_with(-1);
    nodes = instantiate();
  }
  const AttentionProfiler second(options());
  replay(nodes);
  const Stats stats = second.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  EXPECT_EQ(time_of(stats.total), kTicks);
  EXPECT_TRUE(stats.total.flops);
}

TEST_F(DeviceClock, GraphThatNobodySawCapturedIsReported) {
  attend_with(-2);
  const std::vector<std::uint64_t> nodes = instantiate();
  const AttentionProfiler profiler(options());
  replay(nodes);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 0U);
  EXPECT_EQ(stats.diagnostics.kernels_of_unknown_graphs, 2U);
}

TEST_F(DeviceClock, ReplayThatLostAKernelHasNoTime) {
  const AttentionProfiler profiler(options());
  attend_with(-2);
  std::vector<std::uint64_t> nodes = instantiate();
  nodes.pop_back();
  replay(nodes);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 1U);
  EXPECT_FALSE(stats.total.time);
}

TEST_F(DeviceClock, ManyReplaysAreFoldedThoughNobodyAsks) {
  const AttentionProfiler profiler(options());
  attend_with(-1);
  const std::vector<std::uint64_t> nodes = instantiate();
  constexpr int kReplays = 400'000;
  for (int i = 0; i < kReplays; ++i) {
    replay(nodes);
  }
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls + stats.diagnostics.records_dropped.value(), std::uint64_t{kReplays});
  EXPECT_GT(stats.total.calls, 1U << 17);
}

TEST_F(DeviceClock, GlueOfACapturedChainIsItsOwn) {
  const AttentionProfiler profiler(options());
  g_capture_products = true;
  eager_attention([] { capture_node(); });
  g_capture_products = false;
  replay(instantiate());
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(time_of(row), 3 * kTicks);
  EXPECT_EQ(row.glue, Nanoseconds(kTicks));
}

TEST_F(DeviceClock, WhereItCannotRunTheHostTimesAndTheReasonIsTold) {
  fake_cupti_fail("cuptiSubscribe", 14, 0);  // a client of CUPTI's other interface
  const AttentionProfiler profiler(options());
  attend_with(1);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.diagnostics.device_timing_mode, "host");
  EXPECT_THAT(stats.diagnostics.device_timing_reason, ::testing::HasSubstr("CUPTI is in use"));
  EXPECT_GT(time_of(stats.total), 0);
}

TEST_F(DeviceClock, IsOffUntilItIsAskedFor) {
  const AttentionProfiler profiler;
  attend_with(1);
  EXPECT_EQ(fake_cupti_state().calls, 0U);
  EXPECT_EQ(profiler.get_stats().diagnostics.device_timing_mode, "host");
}

}  // namespace
}  // namespace headscope::torch_tests
