#include "aggregate/time_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace headscope::aggregate {
namespace {

// Calls 100 ns apart from `start_ns`.
TimeSums times(std::initializer_list<std::int64_t> durations, std::int64_t start_ns = 0) {
  TimeSums sums;
  for (const std::int64_t duration : durations) {
    sums.add(duration, start_ns);
    start_ns += 100;
  }
  return sums;
}

TEST(TimeSums, SingleCallHasOnlyTotalAndFirst) {
  EXPECT_EQ(times({40}).stats(), (TimeStats{.total = Nanoseconds(40), .first = Nanoseconds(40)}));
}

TEST(TimeSums, FirstCallIsInTheTotalAndOutOfTheRest) {
  const TimeStats stats = times({9'000, 2, 4, 4, 4, 5, 5, 7, 9}).stats();
  // Of 2 4 4 4 5 5 7 9: mean 5, population standard deviation 2.
  EXPECT_EQ(stats, (TimeStats{.total = Nanoseconds(9'040),
                              .first = Nanoseconds(9'000),
                              .mean = Nanoseconds(5),
                              .min = Nanoseconds(2),
                              .p50 = Nanoseconds(4),
                              .p90 = Nanoseconds(9),
                              .p99 = Nanoseconds(9),
                              .max = Nanoseconds(9),
                              .std = Nanoseconds(2)}));
}

TEST(TimeSums, EarliestCallIsTheFirstWhateverTheOrderOfAdding) {
  TimeSums sums;
  sums.add(10, 500);
  sums.add(70, 100);
  EXPECT_EQ(sums.stats().first, Nanoseconds(70));
}

TEST(TimeSums, MergingEqualsAddingAllToOne) {
  TimeSums merged = times({50, 60, 70}, 1'000);
  merged.merge(times({900, 20, 30}));
  EXPECT_EQ(merged.stats(), times({900, 20, 30, 50, 60, 70}).stats());
}

TEST(TimeSums, MergingIntoEmptyKeepsTheOther) {
  TimeSums merged;
  merged.merge(times({900, 20, 30}));
  EXPECT_EQ(merged.stats(), times({900, 20, 30}).stats());
}

TEST(TimeSums, AbsorbingAnotherRowKeepsItsFirstOutOfTheQuantiles) {
  TimeSums total = times({900, 20}, 1'000);
  total.absorb(times({5'000, 30}, 2'000));
  EXPECT_EQ(total.stats().max, Nanoseconds(30));
}

TEST(TimeSums, AbsorbingAnotherRowAddsAllOfItsTime) {
  TimeSums total = times({900, 20}, 1'000);
  total.absorb(times({5'000, 30}, 2'000));
  EXPECT_EQ(total.stats().total, Nanoseconds(5'950));
}

TEST(TimeSums, DeviationOfLongNearlyEqualTimesIsExact) {
  // An hour each; naive double sums would lose the nanoseconds.
  constexpr std::int64_t kHour = 3'600'000'000'000;
  EXPECT_EQ(times({0, kHour - 3, kHour + 3, kHour - 3, kHour + 3}).stats().std, Nanoseconds(3));
}

TEST(TimeSums, QuantilesNeverLeaveTheRangeOfTheSamples) {
  const TimeStats stats = times({0, 1'000'003, 1'000'003}).stats();
  EXPECT_EQ(stats.p99, stats.max);
}

}  // namespace
}  // namespace headscope::aggregate
