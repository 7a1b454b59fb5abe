// Calls timed by their kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "torch/device_clock_fixture.h"

namespace headscope::torch_tests {
namespace {

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
