#include "correlate/live_join.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/builders.h"

namespace headscope::correlate {
namespace {

using records::AttentionCall;
using records::DeviceActivity;
using records::OpRange;

using Settled = LiveJoin::Settled;

constexpr std::uint32_t kThread = 7;

AttentionCall call(std::uint64_t first, std::uint64_t last, std::int64_t start_ns = 0) {
  AttentionCall made = test_support::a_call().shape(1, 2, 8, 4).time(start_ns, 100).build();
  made.device_ops = {.outer = first, .first = first, .last = last, .thread = kThread};
  return made;
}

DeviceActivity work(std::uint32_t correlation, std::uint64_t op, std::int64_t start_ns, std::int64_t duration_ns,
                    std::uint64_t thread = kThread) {
  DeviceActivity activity;
  activity.launches.push_back(
      {.correlation = correlation, .thread = thread, .start_ns = start_ns - 10, .end_ns = start_ns - 5, .op = op});
  activity.spans.push_back({.device = {records::DeviceType::kCuda, 0},
                            .stream = 1,
                            .correlation = correlation,
                            .start_ns = start_ns,
                            .end_ns = start_ns + duration_ns,
                            .name = "kernel"});
  return activity;
}

TEST(OpRange, HoldsWhatWasAddedInAnyOrder) {
  OpRange ops;
  ops.add(20);
  ops.add(22);
  ops.add(17);
  EXPECT_TRUE(ops.holds(17) && ops.holds(20) && ops.holds(22));
  EXPECT_FALSE(ops.holds(16) || ops.holds(18) || ops.holds(19) || ops.holds(21) || ops.holds(23));
  EXPECT_EQ(ops.outer, 17U);
}

TEST(OpRange, TakesInAnotherOne) {
  OpRange ops;
  ops.add(5);
  ops.add(9);
  OpRange other;
  other.add(3);
  other.add(4);
  ops.add(other);
  EXPECT_TRUE(ops.holds(3) && ops.holds(4) && ops.holds(5) && ops.holds(9));
  EXPECT_FALSE(ops.holds(6));
  EXPECT_EQ(ops.first, 3U);
  EXPECT_EQ(ops.last, 9U);
}

TEST(LiveJoin, CallWaitsForItsKernels) {
  LiveJoin join;
  AttentionCall waiting = call(5, 5);
  AttentionCall* calls[] = {&waiting};
  EXPECT_EQ(join.settle(calls, false)[0], Settled::kNo);
  join.add(work(1, 5, 1'000, 30));
  EXPECT_EQ(join.settle(calls, false)[0], Settled::kNo);  // more of its kernels may come
  join.add(work(2, 6, 2'000, 1));
  EXPECT_EQ(join.settle(calls, false)[0], Settled::kYes);
  EXPECT_EQ(waiting.time_ns, 30);
}

TEST(LiveJoin, KernelsComeInSeveralParts) {
  LiveJoin join;
  AttentionCall waiting = call(5, 5);
  AttentionCall* calls[] = {&waiting};
  join.add(work(1, 5, 1'000, 30));
  join.settle(calls, false);
  join.add(work(2, 5, 1'100, 12));
  join.add(work(3, 6, 2'000, 1));
  EXPECT_EQ(join.settle(calls, false)[0], Settled::kYes);
  EXPECT_EQ(waiting.time_ns, 42);
}

TEST(LiveJoin, KernelsOfACallThatIsNotThereYetAreKept) {
  LiveJoin join;
  join.add(work(1, 5, 1'000, 30));
  join.settle({}, false);
  AttentionCall late = call(5, 5);
  AttentionCall* calls[] = {&late};
  join.settle(calls, true);
  EXPECT_EQ(late.time_ns, 30);
}

TEST(LiveJoin, IsEmptyOnceAllIsSettled) {
  LiveJoin join;
  AttentionCall waiting = call(5, 5);
  AttentionCall* calls[] = {&waiting};
  join.add(work(1, 5, 1'000, 30));
  join.add(work(2, 0, 1'200, 30));
  join.settle(calls, true);
  EXPECT_EQ(join.spans(), 0U);
}

TEST(LiveJoin, WhatNoCallNeedsIsForgotten) {
  LiveJoin join;
  AttentionCall waiting = call(1'000, 1'000, 1'000'000);
  AttentionCall* calls[] = {&waiting};
  for (std::uint32_t i = 1; i <= 100; ++i) {
    join.add(work(i, 0, 1'000 + i, 1));
  }
  join.settle(calls, false);
  EXPECT_EQ(join.spans(), 0U);
}

TEST(LiveJoin, OpsOfAnotherThreadAreNotTheCalls) {
  LiveJoin join;
  AttentionCall waiting = call(5, 9);
  AttentionCall* calls[] = {&waiting};
  join.add(work(1, 6, 1'000, 30, kThread + 1));
  join.add(work(2, 7, 1'100, 12));
  join.settle(calls, true);
  EXPECT_EQ(waiting.time_ns, 12);
}

TEST(LiveJoin, WovenChainsHaveTheirOwnOps) {
  LiveJoin join;
  AttentionCall first = call(1, 1);
  first.device_ops = {};
  first.device_ops.add(1);
  first.device_ops.add(3);
  first.device_ops.thread = kThread;
  AttentionCall second = call(2, 2);
  second.device_ops = {};
  second.device_ops.add(2);
  second.device_ops.add(4);
  second.device_ops.thread = kThread;
  AttentionCall* calls[] = {&first, &second};
  for (std::uint32_t op = 1; op <= 4; ++op) {
    join.add(work(op, op, std::int64_t{1'000} * op, op));
  }
  join.settle(calls, true);
  EXPECT_EQ(first.time_ns, 1 + 3);
  EXPECT_EQ(second.time_ns, 2 + 4);
}

TEST(LiveJoin, CallWithoutRecordsHasNoTime) {
  LiveJoin join;
  AttentionCall waiting = call(5, 5);
  AttentionCall* calls[] = {&waiting};
  EXPECT_EQ(join.settle(calls, true)[0], Settled::kYes);
  EXPECT_EQ(waiting.time_ns, -1);
  EXPECT_EQ(waiting.time_source, TimeSource::kDevice);
}

TEST(LiveJoin, KernelWithoutALaunchIsCountedNotDropped) {
  LiveJoin join;
  DeviceActivity activity = work(1, 5, 1'000, 30);
  activity.launches.clear();
  join.add(std::move(activity));
  join.settle({}, false);
  EXPECT_EQ(join.unmatched(), 1U);
}

}  // namespace
}  // namespace headscope::correlate
