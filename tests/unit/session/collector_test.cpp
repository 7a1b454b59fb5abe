#include "session/collector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "headscope/error.h"
#include "unit/session/fixture.h"

namespace headscope::session {
namespace {

using test_support::a_call;

std::vector<std::string> layers(Session& session) {
  std::vector<std::string> names;
  for (const AttentionRow& row : stats_of(session).attention_breakdown) {
    names.push_back(row.layer);
  }
  return names;
}

TEST(Collector, NobodyWatchesWhenNoSessionRuns) { EXPECT_EQ(collector().watch().sessions, 0U); }

TEST(Collector, CallBetweenStartAndStopIsSeen) {
  TestSession session;
  collector().start(session);
  record();
  collector().stop(session);
  EXPECT_EQ(calls_seen(session), 1U);
}

TEST(Collector, CallAfterStopIsNotSeen) {
  TestSession session;
  collector().start(session);
  collector().stop(session);
  record();
  EXPECT_EQ(calls_seen(session), 0U);
}

TEST(Collector, SessionNeverStartedIsEmpty) {
  TestSession session;
  EXPECT_EQ(stats_of(session).total, Figures{});
}

TEST(Collector, StoppingTwiceKeepsTheCalls) {
  TestSession session;
  collector().start(session);
  record();
  collector().stop(session);
  collector().stop(session);
  EXPECT_EQ(calls_seen(session), 1U);
}

TEST(Collector, StartingAgainContinues) {
  TestSession session;
  for (int run = 0; run < 3; ++run) {
    collector().start(session);
    record();
    collector().stop(session);
  }
  EXPECT_EQ(calls_seen(session), 3U);
}

TEST(Collector, NestedSessionSeesOnlyItsOwnScope) {
  TestSession outer;
  TestSession inner;
  collector().start(outer);
  record();
  collector().start(inner);
  record();
  collector().stop(inner);
  record();
  EXPECT_EQ(calls_seen(inner), 1U);
  EXPECT_EQ(calls_seen(outer), 3U);
}

TEST(Collector, OverlappingSessionsSeeTheirOwnScopes) {
  TestSession first;
  TestSession second;
  collector().start(first);
  record();
  collector().start(second);
  record();
  collector().stop(first);
  record();
  record();
  EXPECT_EQ(calls_seen(first), 2U);
  EXPECT_EQ(calls_seen(second), 3U);
}

TEST(Collector, SlotIsReusedWithoutItsFormerCalls) {
  TestSession first;
  collector().start(first);
  const records::AttentionCall late = record();
  collector().stop(first);
  TestSession second;
  collector().start(second);
  collector().submit(records::AttentionCall(late));  // began under the first session, ends under the second
  EXPECT_EQ(calls_seen(second), 0U);
}

TEST(Collector, OneSessionTooManyIsAnError) {
  std::list<TestSession> sessions(kMaxRunning);
  for (TestSession& session : sessions) {
    collector().start(session);
  }
  TestSession one_more;
  EXPECT_THROW(collector().start(one_more), Error);
}

TEST(Collector, AllSlotsAtOnceSeeACall) {
  std::list<TestSession> sessions(kMaxRunning);
  for (TestSession& session : sessions) {
    collector().start(session);
  }
  record();
  for (TestSession& session : sessions) {
    EXPECT_EQ(calls_seen(session), 1U);
  }
}

TEST(Collector, DecodeLengthOfEachSessionDecidesItsPhase) {
  TestSession narrow({.decode_max_q = 1});
  TestSession wide({.decode_max_q = 4});
  collector().start(narrow);
  collector().start(wide);
  record(a_call().q_len(3).kv_len(9).causal(records::Causal::kLowerRight));
  EXPECT_EQ(stats_of(narrow).attention_breakdown.at(0).phase, Phase::kChunkedPrefill);
  EXPECT_EQ(stats_of(wide).attention_breakdown.at(0).phase, Phase::kDecode);
}

// Pauses.

TEST(Pause, CallsAreLeftOut) {
  TestSession session;
  collector().start(session);
  collector().pause(session);
  record();
  collector().resume(session);
  record();
  EXPECT_EQ(calls_seen(session), 1U);
}

TEST(Pause, Nests) {
  TestSession session;
  collector().start(session);
  collector().pause(session);
  collector().pause(session);
  collector().resume(session);
  record();
  EXPECT_EQ(calls_seen(session), 0U);
}

TEST(Pause, TimeIsNotCounted) {
  TestSession session;
  collector().start(session);
  collector().pause(session);
  const std::int64_t before = collector().collect(session).on_ns;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(collector().collect(session).on_ns, before);
}

TEST(Pause, EndsWithStop) {
  TestSession session;
  collector().start(session);
  collector().pause(session);
  collector().stop(session);
  collector().start(session);
  record();
  EXPECT_EQ(calls_seen(session), 1U);
}

// Steps and numbers.

TEST(Step, NumbersUnnamedCallsFromZeroAgain) {
  TestSession session;
  collector().start(session);
  record();
  record();
  collector().step(session);
  record();
  EXPECT_EQ(layers(session), (std::vector<std::string>{"attention[0]", "attention[1]"}));
}

TEST(Step, StoppedSessionIsAnError) {
  TestSession session;
  EXPECT_THROW(collector().step(session), Error);
}

TEST(Step, BackwardAfterItFindsTheNumberOfItsForward) {
  TestSession session;
  collector().start(session);
  record();
  const records::AttentionCall forward = record();
  collector().step(session);
  records::AttentionCall backward = forward;
  backward.direction = Direction::kBackward;
  collector().submit(std::move(backward));
  EXPECT_EQ(stats_of(session).attention_breakdown.back().layer, "attention[1]");
  EXPECT_EQ(stats_of(session).attention_breakdown.back().direction, Direction::kBackward);
}

TEST(Step, OfOneSessionLeavesTheNumbersOfAnotherAlone) {
  TestSession outer;
  TestSession inner;
  collector().start(outer);
  collector().start(inner);
  record();
  collector().step(inner);
  record();
  EXPECT_EQ(layers(outer).size(), 2U);
  EXPECT_EQ(layers(inner).size(), 1U);
}

TEST(Step, KeptCallsSayTheirs) {
  TestSession session({.keep_calls = 2});
  collector().start(session);
  record(a_call().id(1));
  collector().step(session);
  record(a_call().id(2));
  EXPECT_EQ(stats_of(session).calls.at(0).step, 0);
  EXPECT_EQ(stats_of(session).calls.at(1).step, 1);
}

TEST(Steps, HaveAPointEachWithTheirCalls) {
  TestSession session;
  collector().start(session);
  record();
  collector().step(session);
  record();
  record();
  collector().step(session);
  const std::vector<StepPoint> points = points_of(session);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].calls, 1U);
  EXPECT_EQ(points[1].calls, 2U);
  EXPECT_EQ(points[1].first_step, 1);
}

TEST(Steps, StepThatGoesOnHasNoPoint) {
  TestSession session;
  collector().start(session);
  record();
  EXPECT_TRUE(points_of(session).empty());
}

TEST(Steps, CallsOfAllThreadsAreInTheStep) {
  TestSession session;
  collector().start(session);
  record();
  on_another_thread([] { record(); });
  collector().step(session);
  EXPECT_EQ(points_of(session).at(0).calls, 2U);
}

TEST(Steps, StepGoesOnAfterAStopAndAStart) {
  TestSession session;
  collector().start(session);
  record();
  collector().stop(session);
  collector().start(session);
  record();
  collector().step(session);
  EXPECT_EQ(points_of(session).at(0).calls, 2U);
}

TEST(Steps, PointsSumToTheWallTime) {
  TestSession session;
  collector().start(session);
  collector().step(session);
  collector().pause(session);
  collector().resume(session);
  collector().step(session);
  collector().stop(session);
  const Collected collected = collector().collect(session);
  const std::vector<StepPoint> points = collected.series.points();
  ASSERT_EQ(points.size(), 2U);
  EXPECT_GT(points[0].wall.count(), 0);
  EXPECT_LE(points[0].wall.count() + points[1].wall.count(), collected.on_ns);
}

TEST(Steps, StepInWhichTheProfilerWasPausedHasNoPoint) {
  TestSession session;
  collector().start(session);
  collector().pause(session);
  collector().step(session);  // on until the pause
  collector().step(session);
  collector().resume(session);
  record();
  collector().step(session);
  const std::vector<StepPoint> points = points_of(session);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[1].first_step, 2);
}

TEST(Steps, ResetNumbersThemFromWhereItIsTold) {
  TestSession session;
  collector().start(session);
  collector().step(session);
  collector().reset(session, 40);
  record();
  collector().step(session);
  const std::vector<StepPoint> points = points_of(session);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].first_step, 40);
}

TEST(Numbers, CallsBeyond512ShareARowAndAreCounted) {
  TestSession session;
  collector().start(session);
  for (int call = 0; call < 520; ++call) {
    record();
  }
  const Stats stats = stats_of(session);
  EXPECT_EQ(stats.attention_breakdown.size(), 513U);
  EXPECT_EQ(stats.diagnostics.calls_beyond_labels, 8U);
}

TEST(Numbers, BackwardOnAnotherThreadHasTheNumberOfItsForward) {
  TestSession session;
  collector().start(session);
  record();
  const records::AttentionCall forward = record();
  on_another_thread([&] {
    record();  // that thread's own numbers begin at 0
    records::AttentionCall backward = forward;
    backward.direction = Direction::kBackward;
    collector().submit(std::move(backward));
  });
  EXPECT_EQ(stats_of(session).attention_breakdown.back().layer, "attention[1]");
}

TEST(Numbers, EachThreadBeginsAtZero) {
  TestSession session;
  collector().start(session);
  for (int thread = 0; thread < 3; ++thread) {
    on_another_thread([] { record(); });
  }
  EXPECT_EQ(layers(session), (std::vector<std::string>{"attention[0]"}));
}

TEST(Numbers, ForwardBeforeTheStartHasNone) {
  TestSession outer;
  collector().start(outer);
  const records::AttentionCall forward = record();
  TestSession inner;
  collector().start(inner);
  records::AttentionCall backward = forward;
  backward.direction = Direction::kBackward;
  backward.start_ns = base::monotonic_ns();
  backward.sessions = collector().watch().sessions;
  collector().submit(std::move(backward));
  EXPECT_EQ(layers(inner), (std::vector<std::string>{"attention[*]"}));
}

// Reset.

TEST(Reset, ForgetsCallsAndSteps) {
  TestSession session;
  collector().start(session);
  record();
  collector().step(session);
  collector().reset(session, 0);
  EXPECT_EQ(calls_seen(session), 0U);
  EXPECT_EQ(collector().collect(session).steps, 0);
}

TEST(Reset, KeepsRunning) {
  TestSession session;
  collector().start(session);
  record();
  collector().reset(session, 0);
  record();
  EXPECT_EQ(layers(session), (std::vector<std::string>{"attention[0]"}));
}

TEST(Reset, OfAStoppedSessionForgetsItsCalls) {
  TestSession session;
  collector().start(session);
  record();
  collector().stop(session);
  collector().reset(session, 0);
  EXPECT_EQ(calls_seen(session), 0U);
}

// What is watched.

TEST(Watch, IsTheUnionOfWhatSessionsWant) {
  TestSession plain({.memory = Memory::kOff, .eager = Eager::kOff});
  TestSession detail({.memory = Memory::kOff, .eager = Eager::kDetail});
  collector().start(plain);
  collector().start(detail);
  const records::Watch watch = collector().watch();
  EXPECT_FALSE(watch.memory);
  EXPECT_TRUE(watch.eager);
  EXPECT_TRUE(watch.detail);
}

TEST(Watch, ForgetsWhatAStoppedSessionWanted) {
  TestSession plain({.memory = Memory::kOff, .eager = Eager::kOff});
  TestSession eager;
  collector().start(plain);
  collector().start(eager);
  collector().stop(eager);
  EXPECT_FALSE(collector().watch().eager);
}

TEST(Watch, SessionWithoutEagerDoesNotSeeChainsThatAnotherAskedFor) {
  TestSession plain({.eager = Eager::kOff});
  TestSession eager;
  collector().start(plain);
  collector().start(eager);
  record(a_call().eager());
  EXPECT_EQ(calls_seen(plain), 0U);
  EXPECT_EQ(calls_seen(eager), 1U);
}

TEST(Watch, SessionOfOneThreadLeavesOtherThreadsOut) {
  TestSession session({.threads = Threads::kCurrent});
  collector().start(session);
  record();
  on_another_thread([] { record(); });
  EXPECT_EQ(calls_seen(session), 1U);
}

TEST(Watch, SessionOfOneThreadSeesTheBackwardThatRunsElsewhere) {
  TestSession session({.threads = Threads::kCurrent});
  collector().start(session);
  records::AttentionCall backward = record();
  backward.direction = Direction::kBackward;
  on_another_thread([&] { collector().submit(std::move(backward)); });
  EXPECT_EQ(calls_seen(session), 2U);
}

TEST(MaskBudget, IsTheLargestOfTheRunningSessions) {
  TestSession small({.mask_count_budget = 10});
  TestSession large({.mask_count_budget = 100});
  collector().start(large);
  collector().start(small);
  EXPECT_TRUE(collector().spend_mask_budget(100));
}

TEST(MaskBudget, IsNotGivenOutTwice) {
  TestSession session({.mask_count_budget = 100});
  collector().start(session);
  EXPECT_TRUE(collector().spend_mask_budget(60));
  EXPECT_FALSE(collector().spend_mask_budget(60));
}

TEST(MaskBudget, IsRenewedByAStep) {
  TestSession session({.mask_count_budget = 100});
  collector().start(session);
  EXPECT_TRUE(collector().spend_mask_budget(100));
  collector().step(session);
  EXPECT_TRUE(collector().spend_mask_budget(100));
}

TEST(Counts, OnlyThoseOfTheSessionsOwnTime) {
  TestSession session;
  collector().count_failed_call();
  collector().start(session);
  collector().count_failed_call();
  collector().pause(session);
  collector().count_failed_call();
  collector().resume(session);
  collector().count_failed_call();
  collector().stop(session);
  collector().count_failed_call();
  EXPECT_EQ(collector().collect(session).counters.failed_calls, 2U);
}

TEST(Counts, SampledHookTimeStandsFor64Calls) {
  TestSession session;
  collector().start(session);
  collector().count_overhead(10);
  EXPECT_EQ(collector().collect(session).counters.hooks_ns, 640);
}

}  // namespace
}  // namespace headscope::session
