// Calls captured into CUDA graphs, and their replays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "torch/device_clock_fixture.h"

namespace headscope::torch_tests {
namespace {

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

}  // namespace
}  // namespace headscope::torch_tests
