#include "timeline/cupti/late_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headscope::timeline::cupti {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Decoded a_span(std::uint32_t correlation) {
  Decoded decoded;
  decoded.spans.push_back({.correlation = correlation});
  return decoded;
}

Decoded a_call(std::uint32_t correlation, std::int64_t start = 10, std::int64_t end = 20) {
  Decoded decoded;
  decoded.launches.push_back({.correlation = correlation, .thread = 1, .start_ns = start, .end_ns = end});
  return decoded;
}

Decoded a_link(std::uint32_t correlation, std::uint64_t op) {
  Decoded decoded;
  decoded.links.push_back({correlation, op});
  return decoded;
}

records::DeviceActivity take(LateJoin& join, bool all = false) {
  records::DeviceActivity activity;
  join.move_to(activity, all);
  return activity;
}

TEST(LateJoin, SpanCallAndOpMayComeInAnyOrder) {
  const std::vector<Decoded> parts = {a_span(1), a_call(1), a_link(1, 9)};
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    LateJoin join;
    for (const std::size_t part : order) {
      join.add(parts[part]);
    }
    const records::DeviceActivity activity = take(join);
    ASSERT_THAT(activity.spans, SizeIs(1));
    ASSERT_THAT(activity.launches, SizeIs(1));
    EXPECT_EQ(activity.launches[0].op, 9U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(LateJoin, ASpanWaitsForItsLaunch) {
  LateJoin join;
  join.add(a_span(1));
  EXPECT_THAT(take(join).spans, IsEmpty());
  join.add(a_call(1));
  const records::DeviceActivity activity = take(join);
  EXPECT_THAT(activity.spans, SizeIs(1));
  EXPECT_THAT(activity.launches, SizeIs(1));
}

TEST(LateJoin, ASpanDoesNotWaitForEver) {
  LateJoin join;
  join.add(a_span(1));
  for (std::uint32_t i = 0; i < LateJoin::kPatience; ++i) {
    EXPECT_THAT(take(join).spans, IsEmpty());
  }
  EXPECT_THAT(take(join).spans, SizeIs(1));
  EXPECT_EQ(join.waiting(), 0U);
}

TEST(LateJoin, TheEndBringsAll) {
  LateJoin join;
  join.add(a_span(1));
  EXPECT_THAT(take(join, true).spans, SizeIs(1));
}

TEST(LateJoin, ALaunchComesAgainWithLaterSpans) {
  LateJoin join;
  join.add(a_call(1));
  join.add(a_span(1));
  EXPECT_THAT(take(join).launches, SizeIs(1));
  join.add(a_span(1));
  join.add(a_span(1));
  const records::DeviceActivity activity = take(join);
  EXPECT_THAT(activity.launches, SizeIs(1));
  EXPECT_THAT(activity.spans, SizeIs(2));
}

TEST(LateJoin, CallsThatLaunchedNothingAreForgotten) {
  LateJoin join;
  join.add(a_call(1));
  join.add(a_link(2, 5));
  for (std::uint32_t i = 0; i <= LateJoin::kPatience; ++i) {
    EXPECT_THAT(take(join).launches, IsEmpty());
  }
  EXPECT_EQ(join.calls(), 0U);
}

TEST(LateJoin, ARuntimeCallAndTheDriverCallInsideItAreOne) {
  LateJoin join;
  join.add(a_call(1, 12, 18));
  join.add(a_call(1, 10, 20));
  join.add(a_span(1));
  const records::DeviceActivity activity = take(join);
  ASSERT_THAT(activity.launches, SizeIs(1));
  EXPECT_EQ(activity.launches[0].start_ns, 10);
  EXPECT_EQ(activity.launches[0].end_ns, 20);
}

TEST(LateJoin, AnOpWithoutItsCallIsNoLaunch) {
  LateJoin join;
  join.add(a_link(1, 9));
  join.add(a_span(1));
  const records::DeviceActivity activity = take(join, true);
  EXPECT_THAT(activity.spans, SizeIs(1));
  EXPECT_THAT(activity.launches, IsEmpty());
}

TEST(LateJoin, WhatIsBeyondItsLimitIsCounted) {
  LateJoin join(10);
  for (std::uint32_t i = 1; i <= 15; ++i) {
    join.add(a_call(i));
    join.add(a_span(i));
  }
  const records::DeviceActivity activity = take(join);
  EXPECT_THAT(activity.spans, SizeIs(10));
  EXPECT_EQ(activity.dropped, 10U) << "five calls and five spans";
  EXPECT_EQ(take(join).dropped, 0U);
}

TEST(LateJoin, LossesOfBuffersAreDropped) {
  LateJoin join;
  Decoded decoded;
  decoded.stale = 3;
  decoded.broken = 1;
  join.add(decoded);
  join.drop(2);
  EXPECT_EQ(take(join).dropped, 6U);
}

}  // namespace
}  // namespace headscope::timeline::cupti
