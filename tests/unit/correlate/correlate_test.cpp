#include "correlate/correlate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace headscope::correlate {
namespace {

using records::DeviceActivity;
using records::DeviceSpan;
using records::HostSpan;
using records::KernelPart;

constexpr const char* kFlash = "void pytorch_flash::flash_fwd_kernel<64, 128>";

/// A recording on one thread and stream unless a test says otherwise.
class CorrelateTest : public ::testing::Test {
 protected:
  void launch(std::uint32_t correlation, std::int64_t start, std::uint64_t thread = 1, bool of_graph = false) {
    activity_.launches.push_back(
        {.correlation = correlation, .thread = thread, .start_ns = start, .end_ns = start + 5, .of_graph = of_graph});
  }
  DeviceSpan& kernel(std::uint32_t correlation, std::int64_t start, std::int64_t end, std::string_view name = kFlash) {
    activity_.spans.push_back({.device = {records::DeviceType::kCuda, 0},
                               .stream = 7,
                               .correlation = correlation,
                               .start_ns = start,
                               .end_ns = end,
                               .name = name});
    return activity_.spans.back();
  }
  void fused(std::int64_t start, std::int64_t end, std::uint64_t thread = 1) {
    windows_.push_back({.thread = thread, .ops = {{start, end}}, .whole = {start, end}});
  }
  void chain(std::vector<HostSpan> ops) {
    const HostSpan whole{ops.front().start_ns, ops.back().end_ns};
    windows_.push_back({.thread = 1, .ops = std::move(ops), .whole = whole});
  }
  Correlated run() { return correlate(windows_, activity_); }
  records::DeviceWork work(std::size_t call = 0) {
    const Correlated result = run();
    return result.calls.at(call) == nullptr ? records::DeviceWork{} : *result.calls[call];
  }

  DeviceActivity activity_;
  std::vector<CallWindow> windows_;
};

TEST_F(CorrelateTest, CallOwnsWhatItsThreadLaunchedInsideItsOp) {
  fused(100, 200);
  launch(1, 90);
  launch(2, 110);
  launch(3, 150);
  launch(4, 200);
  kernel(1, 300, 310);
  kernel(2, 310, 330);
  kernel(3, 330, 370);
  kernel(4, 370, 400);
  EXPECT_EQ(work().attention_ns, 20 + 40);
  EXPECT_EQ(work().kernels.size(), 2U);
}

TEST_F(CorrelateTest, RecordsComeInAnyOrderAndKernelsLate) {
  fused(100, 200);
  kernel(2, 50'000'000, 50'000'300);
  kernel(1, 40'000'000, 40'000'100);
  launch(2, 120);
  launch(1, 110);
  const records::DeviceWork found = work();
  EXPECT_EQ(found.attention_ns, 400);
  EXPECT_EQ(found.kernels.front().time_ns, 100);
}

TEST_F(CorrelateTest, AnotherThreadsLaunchAtTheSameTimeIsNotTheCalls) {
  fused(100, 200, 1);
  fused(100, 200, 2);
  launch(1, 150, 2);
  kernel(1, 200, 230);
  EXPECT_EQ(run().calls[0], nullptr);
  EXPECT_EQ(work(1).attention_ns, 30);
}

TEST_F(CorrelateTest, InnermostWindowOwnsTheLaunch) {
  fused(100, 300);
  fused(150, 200);
  launch(1, 160);
  launch(2, 250);
  kernel(1, 400, 410);
  kernel(2, 410, 430);
  EXPECT_EQ(work(0).attention_ns, 20);
  EXPECT_EQ(work(1).attention_ns, 10);
}

TEST_F(CorrelateTest, OneLaunchMayHaveManyKernels) {
  fused(100, 200);
  launch(1, 110);
  kernel(1, 300, 310);
  kernel(1, 310, 325);
  EXPECT_EQ(work().attention_ns, 25);
}

TEST_F(CorrelateTest, KernelsOfALaunchedGraphBelongToNoCall) {
  fused(100, 200);
  launch(1, 110, 1, true);
  for (int i = 0; i < 28; ++i) {
    kernel(1, 300 + i * 10, 305 + i * 10);
  }
  const Correlated result = run();
  EXPECT_EQ(result.calls[0], nullptr);
  ASSERT_EQ(result.lone.size(), 28U);
  EXPECT_TRUE(result.lone[0].in_graph);
}

TEST_F(CorrelateTest, BetweenTheOpsOfAChainLiesItsGlue) {
  chain({{100, 120}, {150, 170}, {200, 220}});
  launch(1, 105);
  launch(2, 130);
  launch(3, 155);
  launch(4, 180);
  launch(5, 205);
  launch(6, 230);
  for (std::uint32_t i = 1; i <= 6; ++i) {
    kernel(i, 1000 + i * 100, 1000 + i * 100 + i, "gemm");
  }
  const records::DeviceWork found = work();
  EXPECT_EQ(found.attention_ns, 1 + 3 + 5);
  EXPECT_EQ(found.glue_ns, 2 + 4);
  EXPECT_EQ(found.kernels[1].part, KernelPart::kGlue);
}

TEST_F(CorrelateTest, OpThatDoesOtherWorkTooIsSplitByTheNamesOfItsKernels) {
  fused(100, 200);
  windows_[0].holds_other_work = true;
  launch(1, 110);
  launch(2, 120);
  launch(3, 130);
  kernel(1, 300, 310, "void vllm::reshape_and_cache_flash_kernel<>");
  kernel(2, 310, 340, "fmhaSm100aKernel_QkvE4m3");
  kernel(3, 340, 345).kind = DeviceSpan::Kind::kMemset;
  EXPECT_EQ(work().attention_ns, 30);
  EXPECT_EQ(work().other_ns, 15);
}

TEST_F(CorrelateTest, FillsOfAFusedOpAreItsOwn) {
  fused(100, 200);
  launch(1, 110);
  launch(2, 120);
  kernel(1, 300, 310).kind = DeviceSpan::Kind::kMemset;
  kernel(2, 310, 340);
  EXPECT_EQ(work().attention_ns, 40);
}

TEST_F(CorrelateTest, LostKernelLeavesTheTimeUnknown) {
  fused(100, 200);
  launch(1, 110);
  launch(2, 120);
  kernel(1, 300, 310);
  const records::DeviceWork found = work();
  EXPECT_EQ(found.attention_ns, -1);
  EXPECT_EQ(found.gap_ns, -1);
  EXPECT_EQ(found.kernels.size(), 1U);
}

TEST_F(CorrelateTest, UntimedKernelLeavesTheTimeUnknown) {
  fused(100, 200);
  launch(1, 110);
  kernel(1, 0, 0);
  EXPECT_EQ(work().attention_ns, -1);
}

TEST_F(CorrelateTest, LaunchLatencyIsThatOfAnIdleStream) {
  fused(100, 200);
  launch(1, 110);
  kernel(9, 50, 110, "before");
  kernel(1, 117, 130);
  EXPECT_EQ(work().launch_latency_ns, 7);
  EXPECT_EQ(work().queue_ns, -1);
}

TEST_F(CorrelateTest, OnABusyStreamTheSameIsTheQueue) {
  fused(100, 200);
  launch(1, 110);
  kernel(9, 50, 111, "before");
  kernel(1, 117, 130);
  EXPECT_EQ(work().launch_latency_ns, -1);
  EXPECT_EQ(work().queue_ns, 7);
}

TEST_F(CorrelateTest, LongKernelBeforeAShortOneKeepsTheStreamBusy) {
  fused(100, 200);
  launch(1, 110);
  kernel(8, 50, 112, "long");
  kernel(9, 60, 70, "short");  // two graphs' branches share a stream id
  kernel(1, 117, 130);
  EXPECT_EQ(work().queue_ns, 7);
}

TEST_F(CorrelateTest, OtherStreamsDoNotMakeTheStreamBusy) {
  fused(100, 200);
  launch(1, 110);
  kernel(9, 50, 500, "elsewhere").stream = 8;
  kernel(1, 117, 130);
  EXPECT_EQ(work().launch_latency_ns, 7);
}

TEST_F(CorrelateTest, ClocksThatDisagreeGiveNoLatency) {
  fused(100, 200);
  launch(1, 110);
  kernel(1, 105, 130);
  EXPECT_EQ(work().launch_latency_ns, -1);
  EXPECT_EQ(work().queue_ns, -1);
  EXPECT_EQ(work().attention_ns, 25);
}

TEST_F(CorrelateTest, GapIsWhereNoKernelOfTheCallRuns) {
  fused(100, 200);
  launch(1, 110);
  launch(2, 120);
  launch(3, 130);
  kernel(1, 300, 310);
  kernel(2, 320, 350);
  kernel(3, 340, 360).stream = 8;
  EXPECT_EQ(work().gap_ns, 10);
  EXPECT_EQ(work().attention_ns, 10 + 30 + 20);
}

TEST_F(CorrelateTest, AttentionKernelsOfNoCallAreTold) {
  launch(1, 110);
  kernel(1, 300, 310);
  kernel(2, 320, 330);
  kernel(3, 340, 350, "gemm");
  const Correlated result = run();
  EXPECT_EQ(result.spans_without_launch, 2U);
  ASSERT_EQ(result.lone.size(), 2U);
  EXPECT_FALSE(result.lone[0].in_graph);
  EXPECT_EQ(result.lone[0].name.family, "flash");
}

TEST_F(CorrelateTest, IdleTimeIsSummedOverDevices) {
  kernel(1, 100, 200);
  kernel(2, 150, 180);
  kernel(3, 250, 300);
  kernel(4, 0, 10).device.index = 1;
  kernel(5, 40, 50).device.index = 1;
  EXPECT_EQ(run().device_idle_ns, 50 + 30);
}

TEST_F(CorrelateTest, WithoutADeviceNothingIsKnown) {
  fused(100, 200);
  const Correlated result = run();
  EXPECT_EQ(result.calls[0], nullptr);
  EXPECT_EQ(result.device_idle_ns, std::nullopt);
}

}  // namespace
}  // namespace headscope::correlate
