// Which op a kernel belongs to: nesting, threads, sessions, other tools' ids.

#include <atomic>
#include <map>

#include "cupti/fixture.h"
#include "timeline/cupti/op_stack.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::ElementsAre;

constexpr std::uint32_t kCustom2 = 5;

TEST_F(DeviceClock, OpsOfFourThreadsDoNotMix) {
  for (const bool buffer_per_thread : {false, true}) {
    fake_cupti_buffer_per_thread(buffer_per_thread);
    start();
    constexpr int kThreads = 4;
    constexpr int kOps = 200;
    std::vector<std::map<std::uint32_t, std::uint64_t>> expected(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kOps; ++i) {
          const std::uint64_t outer = clock().open_op({});
          expected[thread][launch()] = outer;
          const std::uint64_t inner = clock().open_op({});
          expected[thread][launch()] = inner;
          clock().close_op(inner);
          clock().close_op(outer);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    const records::DeviceActivity activity = stop_and_take();
    std::map<std::uint32_t, std::uint64_t> ops;
    for (const records::Launch& launched : activity.launches) {
      ops[launched.correlation] = launched.op;
    }
    std::map<std::uint32_t, std::uint64_t> all;
    for (const auto& part : expected) {
      all.insert(part.begin(), part.end());
    }
    EXPECT_EQ(ops, all);
    EXPECT_EQ(activity.spans.size(), all.size());
  }
}

TEST_F(DeviceClock, LaunchesHaveTheSystemsThreadId) {
  start();
  launch();
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_EQ(activity.launches.size(), 1U);
  EXPECT_EQ(activity.launches[0].thread, static_cast<std::uint64_t>(gettid()));
}

TEST_F(DeviceClock, IdsGrowOverSessionsAndAreNeverZero) {
  std::uint64_t last = 0;
  for (int session = 0; session < 3; ++session) {
    start();
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t op = clock().open_op({});
      EXPECT_GT(op, last);
      last = op;
      clock().close_op(op);
    }
    clock().stop();
  }
}

TEST_F(DeviceClock, OpenAndCloseLeaveCuptisStackEmpty) {
  start();
  const std::uint64_t outer = clock().open_op({});
  const std::uint64_t inner = clock().open_op({});
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 2U);
  clock().close_op(inner);
  clock().close_op(outer);
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 0U);
}

TEST_F(DeviceClock, ClosingAnOuterOpEndsThoseLeftOpenInside) {
  start();
  const std::uint64_t outer = clock().open_op({});
  static_cast<void>(clock().open_op({}));
  clock().close_op(outer);
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 0U);
}

TEST_F(DeviceClock, ClosingAnOpTwicePopsOnce) {
  start();
  const std::uint64_t outer = clock().open_op({});
  const std::uint64_t inner = clock().open_op({});
  clock().close_op(inner);
  clock().close_op(inner);
  clock().close_op(0);
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 1U);
  clock().close_op(outer);
}

TEST_F(DeviceClock, AnOpOfAnotherThreadIsNotClosedHere) {
  start();
  std::uint64_t theirs = 0;
  std::thread([&] { theirs = clock().open_op({}); }).join();
  const std::uint64_t own = clock().open_op({});
  clock().close_op(theirs);
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 1U);
  clock().close_op(own);
}

TEST_F(DeviceClock, AScopeOfAnEarlierSessionPopsNothingInALaterOne) {
  start();
  const std::uint64_t old = clock().open_op({});
  clock().stop();
  static_cast<void>(clock().take());
  start();
  const std::uint64_t own = clock().open_op({});
  clock().close_op(old);
  const std::uint32_t inside = launch();
  clock().close_op(own);
  EXPECT_EQ(op_of(stop_and_take(), inside), own);
}

TEST_F(DeviceClock, IdsLeftByAnEarlierSessionAreDrainedAtAThreadsFirstOp) {
  start();
  static_cast<void>(clock().open_op({}));
  static_cast<void>(clock().open_op({}));
  clock().stop();
  start();
  const std::uint64_t op = clock().open_op({});
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 1U);
  clock().close_op(op);
}

TEST_F(DeviceClock, IdsLeftByAnEarlierSessionAreNoOpsOfThisOne) {
  start();
  static_cast<void>(clock().open_op({}));
  clock().stop();
  static_cast<void>(clock().take());
  start();
  const std::uint32_t correlation = launch();  // CUPTI puts the old id before it
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_EQ(activity.launches.size(), 1U);
  EXPECT_EQ(op_of(activity, correlation), 0U);
}

TEST_F(DeviceClock, IdsThatWereNeverGivenAreNoOps) {
  start();
  fake_cupti_push(kCustom2, ~std::uint64_t{0});
  const std::uint32_t correlation = launch();
  EXPECT_EQ(op_of(stop_and_take(), correlation), 0U);
}

TEST_F(DeviceClock, IdsOfOtherKindsAreOtherTools) {
  start();
  const std::uint64_t op = clock().open_op({});
  fake_cupti_push(3, op + 1000);
  fake_cupti_push(4, op);
  const std::uint32_t inside = launch();
  clock().close_op(op);
  const std::uint32_t outside = launch();
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_EQ(op_of(activity, inside), op);
  EXPECT_EQ(op_of(activity, outside), 0U);
  EXPECT_EQ(fake_cupti_stack_depth(3), 1U) << "what others pushed stays theirs";
}

TEST_F(DeviceClock, OpsNestedTooDeeplyAreCountedAndTheOthersKept) {
  start();
  std::vector<std::uint64_t> open;
  for (std::size_t i = 0; i < OpStack::kMaxDepth; ++i) {
    open.push_back(clock().open_op({}));
  }
  EXPECT_EQ(clock().open_op({}), 0U);
  const std::uint32_t deep = launch();
  for (auto op = open.rbegin(); op != open.rend(); ++op) {
    clock().close_op(*op);
  }
  EXPECT_EQ(fake_cupti_stack_depth(kCustom2), 0U);
  EXPECT_EQ(op_of(stop_and_take(), deep), open.back());
  EXPECT_EQ(clock().losses().unmarked_ops, 1U);
}

TEST_F(DeviceClock, TwoHundredSessionsKeepOpsApart) {
  const std::uint64_t before = clock().buffer_bytes();
  for (int session = 0; session < 200; ++session) {
    ASSERT_TRUE(start().enabled());
    const std::uint64_t op = launch_in_op();
    ASSERT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op)) << "session " << session;
  }
  EXPECT_EQ(clock().buffer_bytes(), before) << "buffers are freed with their session";
}

TEST_F(DeviceClock, ACorrelationIdUsedAgainInTheNextSessionIsNotJoinedWithTheOld) {
  FakeLaunch what;
  what.correlation = 77;
  start();
  launch_in_op(what);
  clock().stop();
  static_cast<void>(clock().take());
  start();
  launch(what);
  EXPECT_EQ(op_of(stop_and_take(), 77), 0U);
}

TEST_F(DeviceClock, OpsOpenAndCloseWhileSessionsStartAndStop) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        launch_in_op();
      }
    });
  }
  for (int session = 0; session < 30; ++session) {
    start();
    clock().flush();
    const records::DeviceActivity mid = clock().take();
    const records::DeviceActivity rest = stop_and_take();
    for (const records::Launch& launched : rest.launches) {
      EXPECT_LE(launched.start_ns, launched.end_ns);
    }
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace headscope::timeline::cupti
