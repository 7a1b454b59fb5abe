#include "aggregate/step_series.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "model/work.h"
#include "support/builders.h"

namespace headscope::aggregate {
namespace {

using test_support::a_call;
using test_support::CallBuilder;

StepSums sums_of(std::initializer_list<CallBuilder> calls) {
  StepSums sums;
  for (const CallBuilder& builder : calls) {
    const records::AttentionCall call = builder.build();
    sums.add(model::cost(call, 1), true);
  }
  return sums;
}

/// 1 head, 2 queries and keys, 4 numbers a head: 64 FLOPs.
CallBuilder small(std::int64_t time_ns) { return a_call().shape(1, 1, 2, 4).time(100, time_ns); }

StepSeries series_of(std::int64_t steps) {
  StepSeries series;
  for (std::int64_t step = 0; step < steps; ++step) {
    series.add(step, 10, sums_of({small(1)}));
  }
  return series;
}

TEST(StepSeries, PointSumsTheCallsOfItsStep) {
  StepSeries series;
  series.add(0, 500, sums_of({small(30), small(40).backward()}));
  const StepPoint point = series.points().at(0);
  EXPECT_EQ(point.calls, 2U);
  EXPECT_EQ(point.wall, Nanoseconds(500));
  EXPECT_EQ(point.attention, Nanoseconds(70));
  EXPECT_EQ(point.backward, Nanoseconds(40));
  EXPECT_EQ(point.flops, Count{64 + 160});  // 2·P·(D+Dv) and 2·P·(3D+2Dv), P = 4
}

TEST(StepSeries, StepWithoutCallsHasNoPeak) {
  StepSeries series;
  series.add(0, 500, {});
  EXPECT_EQ(series.points().at(0).peak_bytes, std::nullopt);
  EXPECT_EQ(series.points().at(0).flops, Count{0});
}

TEST(StepSeries, PeakIsThatOfTheLargestCall) {
  const auto with_peak = [](std::int64_t bytes) { return small(1).with([=](auto& call) { call.peak_bytes = bytes; }); };
  StepSeries series;
  series.add(0, 1, sums_of({with_peak(30), with_peak(50), with_peak(20)}));
  EXPECT_EQ(series.points().at(0).peak_bytes, 50);
}

TEST(StepSeries, UpTo512StepsHaveAPointEach) {
  const std::vector<StepPoint> points = series_of(512).points();
  ASSERT_EQ(points.size(), 512U);
  EXPECT_EQ(points.back().first_step, 511);
  EXPECT_EQ(points.back().steps, 1);
}

TEST(StepSeries, LongerRunsMergeNeighbours) {
  const std::vector<StepPoint> points = series_of(513).points();
  ASSERT_EQ(points.size(), 257U);
  EXPECT_EQ(points.front().last_step, 1);
  EXPECT_EQ(points.front().wall, Nanoseconds(20));
  EXPECT_EQ(points.front().flops, Count{2 * 64});
  EXPECT_EQ(points.back().steps, 1);
}

TEST(StepSeries, LosesNoStepHoweverLongTheRun) {
  const std::vector<StepPoint> points = series_of(10'000).points();
  EXPECT_LE(points.size(), 512U);
  std::int64_t next = 0;
  std::uint64_t calls = 0;
  for (const StepPoint& point : points) {
    EXPECT_EQ(point.first_step, next);
    EXPECT_EQ(point.last_step, next + point.steps - 1);
    next += point.steps;
    calls += point.calls;
  }
  EXPECT_EQ(next, 10'000);
  EXPECT_EQ(calls, 10'000U);
}

TEST(StepSeries, KeepsTheNumbersOfStepsThatWereLeftOut) {
  StepSeries series;
  series.add(3, 1, {});
  series.add(7, 1, {});
  EXPECT_EQ(series.points().at(1).first_step, 7);
}

}  // namespace
}  // namespace headscope::aggregate
