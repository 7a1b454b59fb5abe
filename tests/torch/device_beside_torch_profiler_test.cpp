// The device clock beside torch's profiler, which has CUPTI first.

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "torch/device_clock_fixture.h"

namespace headscope::torch_tests {
namespace {

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

}  // namespace
}  // namespace headscope::torch_tests
