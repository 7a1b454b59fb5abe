#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "unit/session/fixture.h"

namespace headscope::session {
namespace {

constexpr int kThreads = 4;
constexpr std::uint64_t kCalls = 20'000;

/// kThreads threads that record kCalls each.
class Producers {
 public:
  Producers() {
    for (int thread = 0; thread < kThreads; ++thread) {
      threads_.emplace_back([this] {
        for (std::uint64_t call = 0; call < kCalls; ++call) {
          record();
        }
        ++finished_;
      });
    }
  }
  ~Producers() { join(); }

  void join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }
  [[nodiscard]] bool finished() const { return finished_ == kThreads; }

 private:
  std::atomic<int> finished_{0};
  std::vector<std::thread> threads_;
};

TEST(Threads, NoCallIsLostWhileSnapshotsAreTaken) {
  TestSession session({.keep_calls = 10});
  collector().start(session);
  Producers producers;
  std::uint64_t last = 0;
  while (!producers.finished()) {
    const std::uint64_t seen = calls_seen(session);
    ASSERT_GE(seen, last);
    last = seen;
  }
  producers.join();
  EXPECT_EQ(calls_seen(session), kThreads * kCalls);
}

TEST(Threads, SessionsComeAndGoWhileCallsAreMade) {
  TestSession whole;
  collector().start(whole);
  Producers producers;
  while (!producers.finished()) {
    TestSession brief;
    collector().start(brief);
    collector().step(brief);
    collector().reset(brief, 0);
    collector().pause(brief);
    collector().resume(brief);
    collector().stop(brief);
  }
  producers.join();
  EXPECT_EQ(calls_seen(whole), kThreads * kCalls);
}

TEST(Threads, CallsOfAThreadThatEndedAreKept) {
  TestSession session;
  collector().start(session);
  on_another_thread([] { record(); });
  EXPECT_EQ(calls_seen(session), 1U);
}

TEST(Threads, RingsAreReusedByLaterThreads) {
  on_another_thread([] { collector().this_thread(); });
  const std::size_t rings = collector().rings();
  for (int thread = 0; thread < 100; ++thread) {
    on_another_thread([] { collector().this_thread(); });
  }
  EXPECT_EQ(collector().rings(), rings);
}

TEST(Threads, LaterThreadOnTheSameRingIsAnotherThread) {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  on_another_thread([&] { first = collector().this_thread(); });
  on_another_thread([&] { second = collector().this_thread(); });
  EXPECT_NE(first, second);
}

struct RecordsWhenDestroyed {
  ~RecordsWhenDestroyed() { record(); }
  bool used = false;
};

TEST(Threads, CallFromADestructorOfTheThreadIsSeen) {
  TestSession session;
  collector().start(session);
  on_another_thread([] {
    // Made before the thread's ring, hence destroyed after it.
    static thread_local RecordsWhenDestroyed late;
    late.used = true;
    record();
  });
  EXPECT_EQ(calls_seen(session), 2U);
}

TEST(Threads, SessionMayBeStoppedByAnotherThread) {
  TestSession session;
  collector().start(session);
  record();
  on_another_thread([&] { collector().stop(session); });
  EXPECT_EQ(calls_seen(session), 1U);
}

}  // namespace
}  // namespace headscope::session
