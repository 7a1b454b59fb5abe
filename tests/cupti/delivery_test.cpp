// How buffers travel: sizes, order, threads, losses.

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "cupti/fixture.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EachLayout : public DeviceClock, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(EachLayout, RecordsOfEachReleaseAreRead) {
  std::size_t count = 0;
  const FakeLayout& layout = fake_cupti_layouts(&count)[GetParam()];
  fake_cupti_set_version(layout.version);
  fake_cupti_limit_buffers(4096);
  start();
  constexpr int kLaunches = 100;
  std::vector<std::uint64_t> ops;
  for (int i = 0; i < kLaunches; ++i) {
    FakeLaunch what;
    what.stream = static_cast<std::uint32_t>(i);
    ops.push_back(launch_in_op(what));
    fake_cupti_transfer(1, 1, 64);
    fake_cupti_transfer(2, 0, 32);
  }
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(3 * kLaunches));
  EXPECT_EQ(activity.dropped, 0U);
  for (int i = 0; i < kLaunches; ++i) {
    const records::DeviceSpan& span = activity.spans[std::size_t{3} * static_cast<std::size_t>(i)];
    EXPECT_EQ(span.name, "kernel");
    EXPECT_EQ(span.stream, static_cast<std::uint32_t>(i));
    EXPECT_EQ(op_of(activity, span.correlation), ops[static_cast<std::size_t>(i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, EachLayout, ::testing::Range<std::size_t>(0, 9), [](const auto& test) {
  std::size_t count = 0;
  return "Version" + std::to_string(fake_cupti_layouts(&count)[test.param].version);
});

TEST_F(DeviceClock, SmallBuffersInReverseOrderLoseNothing) {
  fake_cupti_limit_buffers(1024);
  fake_cupti_reorder(true);
  start();
  std::vector<std::uint64_t> ops;
  for (int i = 0; i < 100; ++i) {
    ops.push_back(launch_in_op());
  }
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_GT(fake_cupti_state().buffers_returned, 20U);
  EXPECT_THAT(ops_of_spans(activity), ::testing::UnorderedElementsAreArray(ops));
}

TEST_F(DeviceClock, AKernelBeforeItsCallAndItsOpIsJoined) {
  start();
  FakeLaunch what;
  what.kernel_first = true;
  const std::uint64_t op = launch_in_op(what);
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
}

TEST_F(DeviceClock, BuffersMayComeBackOnAThreadOfCuptis) {
  fake_cupti_deliver_on_thread(true);
  fake_cupti_limit_buffers(1024);
  start();
  std::vector<std::uint64_t> ops;
  for (int i = 0; i < 50; ++i) {
    ops.push_back(launch_in_op());
  }
  EXPECT_EQ(ops_of_spans(stop_and_take()), ops);
}

TEST_F(DeviceClock, ASlowReturnOfBuffersLosesNothing) {
  fake_cupti_delay(200);
  fake_cupti_limit_buffers(1024);
  start();
  for (int i = 0; i < 50; ++i) {
    launch_in_op();
  }
  EXPECT_THAT(stop_and_take().spans, SizeIs(50));
}

TEST_F(DeviceClock, RecordsThatCuptiDroppedAreCounted) {
  fake_cupti_drop(1000);  // before the session: not its own
  start();
  fake_cupti_drop(3);
  clock().flush();
  fake_cupti_drop(4);
  EXPECT_EQ(stop_and_take().dropped, 7U);
}

TEST_F(DeviceClock, UntimedKernelsAreKeptAndCounted) {
  start();
  FakeLaunch what;
  what.untimed = true;
  const std::uint64_t op = launch_in_op(what);
  launch();
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_EQ(activity.untimed, 1U);
  ASSERT_THAT(activity.spans, SizeIs(2));
  EXPECT_FALSE(activity.spans[0].timed());
  EXPECT_EQ(activity.spans[0].start_ns, 0);
  EXPECT_EQ(op_of(activity, activity.spans[0].correlation), op);
}

TEST_F(DeviceClock, AKernelThatStillRanAtAForcedFlushIsUntimed) {
  start();
  FakeLaunch what;
  what.start = fake_cupti_now();
  what.end = what.start + 1;
  what.running = true;
  launch(what);
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_EQ(activity.untimed, 1U);
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].start_ns, 0);
  EXPECT_EQ(activity.spans[0].end_ns, 0);
}

TEST_F(DeviceClock, AKernelThatRunsIsWaitedForWhileTheSessionGoesOn) {
  start();
  FakeLaunch what;
  what.running = true;
  launch(what);
  clock().flush();
  fake_cupti_finish_running();
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_EQ(activity.untimed, 0U);
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].end_ns - activity.spans[0].start_ns, 1000);
}

TEST_F(DeviceClock, RecordsStampedBeforeTheSessionAreDropped) {
  start();
  FakeLaunch old;
  old.start = fake_cupti_now() - 2'000'000'000;
  old.end = old.start + 1000;
  old.call_start = old.start - 100;
  launch(old);
  launch_named("own");
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].name, "own");
  EXPECT_EQ(activity.dropped, 2U) << "a kernel and its call";
}

class EachWayToRefuse : public DeviceClock, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(EachWayToRefuse, RecordsWithoutABufferAreCountedAndTracingGoesOn) {
  fake_cupti_set_version(GetParam());
  clock().set_limits({.buffer_bytes = 4096, .buffers = 2});
  fake_cupti_reorder(true);  // nothing comes back before a flush
  start();
  constexpr std::int64_t kLaunches = 300;
  for (std::int64_t i = 0; i < kLaunches; ++i) {
    launch();
  }
  clock().flush();
  launch_named("after");
  const records::DeviceActivity activity = stop_and_take();
  const auto spans = static_cast<std::int64_t>(activity.spans.size());
  // Two records a launch; a buffer may end between the call's and the kernel's.
  const std::int64_t missing = 2 * (kLaunches + 1 - spans);
  EXPECT_GT(missing, 0);
  EXPECT_NEAR(static_cast<double>(activity.dropped), static_cast<double>(missing), 2.0);
  EXPECT_EQ(activity.spans.back().name, "after");
  EXPECT_EQ(fake_cupti_state().unsafe_nulls, 0U);
  EXPECT_EQ(fake_cupti_state().refused > 0, GetParam() >= 27U) << "CUPTI before API 27 crashes without a buffer";
}

INSTANTIATE_TEST_SUITE_P(Releases, EachWayToRefuse, ::testing::Values(24U, 26U, 28U, 130001U));

TEST_F(DeviceClock, BuffersOfOthersAreLeftAloneAndCounted) {
  start();
  std::array<std::uint8_t, 256> foreign{};
  foreign.fill(0xEE);
  fake_cupti_return_foreign(foreign.data(), foreign.size());
  launch();
  EXPECT_THAT(stop_and_take().spans, SizeIs(1));
  EXPECT_EQ(clock().losses().foreign_buffers, 1U);
  EXPECT_THAT(foreign, ::testing::Each(0xEE));
}

TEST_F(DeviceClock, AnUnreadableRecordEndsItsBufferOnly) {
  fake_cupti_limit_buffers(1024);
  start();
  launch_named("before");
  const std::array<std::uint8_t, 64> garbage{};
  fake_cupti_write(garbage.data(), garbage.size());
  launch_named("behind");
  clock().flush();
  launch_named("next buffer");
  const records::DeviceActivity activity = stop_and_take();
  std::vector<std::string_view> names;
  for (const records::DeviceSpan& span : activity.spans) {
    names.push_back(span.name);
  }
  EXPECT_THAT(names, ElementsAre("before", "next buffer"));
  EXPECT_EQ(activity.dropped, 1U);
}

TEST_F(DeviceClock, ARecordThatIsCutOffIsNotRead) {
  start();
  const std::uint32_t kernel = 10;
  fake_cupti_write(&kernel, sizeof kernel);
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_THAT(activity.spans, IsEmpty());
  EXPECT_EQ(activity.dropped, 1U);
}

TEST_F(DeviceClock, StolenCallbacksAreNoticedAndKindsLeftToTheOther) {
  start();
  launch();
  fake_cupti_steal();
  launch();
  clock().stop();
  EXPECT_TRUE(clock().losses().stolen);
  EXPECT_THAT(clock().status().warnings, SizeIs(1));
  EXPECT_GT(fake_cupti_state().enabled_kinds, 0U);
  EXPECT_THAT(clock().take().spans, IsEmpty());
}

TEST_F(DeviceClock, ASessionAfterATheftWorks) {
  start();
  launch();
  fake_cupti_steal();
  clock().stop();
  EXPECT_TRUE(start().enabled());
  const std::uint64_t op = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
  EXPECT_FALSE(clock().losses().stolen);
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
}

TEST_F(DeviceClock, BuffersThatComeBackBetweenSessionsAreNoPartOfTheNext) {
  fake_cupti_hold(true);
  start();
  launch_named("late");
  clock().stop();
  fake_cupti_hold(false);
  fake_cupti_deliver_late();
  start();
  launch_named("own");
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].name, "own");
  EXPECT_EQ(clock().losses().late_buffers, 1U);
}

TEST_F(DeviceClock, BuffersThatComeBackInALaterSessionCountAsDropped) {
  fake_cupti_hold(true);
  start();
  launch_named("late");
  clock().stop();
  fake_cupti_hold(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  start();
  fake_cupti_deliver_late();
  launch_named("own");
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].name, "own");
  EXPECT_EQ(activity.dropped, 2U);
}

TEST_F(DeviceClock, EachSpanIsTakenOnce) {
  start();
  launch_in_op();
  clock().flush();
  EXPECT_THAT(clock().take().spans, SizeIs(1));
  EXPECT_THAT(clock().take().spans, IsEmpty());
  launch_in_op();
  EXPECT_THAT(stop_and_take().spans, SizeIs(1));
}

TEST_F(DeviceClock, WhatWasNotTakenAfterStopIsStillThereAfterTheNextStart) {
  start();
  const std::uint64_t op = launch_in_op();
  clock().stop();
  start();
  EXPECT_THAT(ops_of_spans(clock().take()), ElementsAre(op));
}

TEST_F(DeviceClock, KernelsWithTheSameNameShareItByContent) {
  start();
  std::array<char, 8> module{"alpha"};
  launch_named(module.data());
  clock().flush();
  const records::DeviceActivity first = clock().take();
  module = {"beta"};  // the module was loaded again at the same address
  launch_named(module.data());
  const std::string copy = "alpha";
  launch_named(copy.c_str());
  const records::DeviceActivity second = stop_and_take();
  ASSERT_THAT(first.spans, SizeIs(1));
  ASSERT_THAT(second.spans, SizeIs(2));
  EXPECT_EQ(first.spans[0].name, "alpha");
  EXPECT_EQ(second.spans[0].name, "beta");
  EXPECT_EQ(second.spans[1].name.data(), first.spans[0].name.data());
}

TEST_F(DeviceClock, AKernelWithoutANameIsKept) {
  start();
  launch_named(nullptr);
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.spans[0].name, "(unnamed)");
}

TEST_F(DeviceClock, ManySpansAskToBeTaken) {
  static std::atomic<int> asked{0};
  clock().when_many_spans([] { ++asked; });
  start();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::size_t launched = 0;
  for (; asked == 0 && std::chrono::steady_clock::now() < deadline; ++launched) {
    launch_in_op();
  }
  EXPECT_GE(asked, 1);
  EXPECT_GE(launched, DeviceTimeline::kManySpans);
  stop_and_take();
  clock().when_many_spans(nullptr);
}

TEST_F(DeviceClock, BuffersAreReadWhileDevicesRun) {
  fake_cupti_limit_buffers(1024);
  clock().set_limits({.buffer_bytes = 1024, .buffers = 4});
  start();
  // Four buffers come back more often than that only if somebody reads them. A busy machine may take long.
  constexpr std::uint64_t kReturned = 50;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (fake_cupti_state().buffers_returned < kReturned && std::chrono::steady_clock::now() < deadline) {
    launch_in_op();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_GE(fake_cupti_state().buffers_returned, kReturned);
  stop_and_take();
}

}  // namespace
}  // namespace headscope::timeline::cupti
