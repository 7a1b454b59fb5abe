#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "unit/session/fixture.h"

namespace headscope::session {
namespace {

/// Whether `check` holds in a forked child.
bool holds_in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, ChildStartsWithoutRunningSessions) {
  TestSession session;
  collector().start(session);
  EXPECT_TRUE(holds_in_child([&] { return collector().watch().sessions == 0 && !collector().running(session); }));
}

TEST(Fork, InheritedSessionKeepsWhatItHad) {
  TestSession session;
  collector().start(session);
  record();
  on_another_thread([] { record(); });
  EXPECT_TRUE(holds_in_child([&] { return calls_seen(session) == 2; }));
}

TEST(Fork, ChildMayStartItsOwnSession) {
  TestSession session;
  collector().start(session);
  record();
  EXPECT_TRUE(holds_in_child([] {
    TestSession own;
    collector().start(own);
    record();
    return calls_seen(own) == 1;
  }));
}

TEST(Fork, InheritedSessionMayBeContinued) {
  TestSession session;
  collector().start(session);
  record();
  EXPECT_TRUE(holds_in_child([&] {
    collector().start(session);
    record();
    return calls_seen(session) == 2;
  }));
}

TEST(Fork, ParentGoesOn) {
  TestSession session;
  collector().start(session);
  record();
  EXPECT_TRUE(holds_in_child([] { return true; }));
  record();
  EXPECT_EQ(calls_seen(session), 2U);
}

TEST(Fork, ChildOfABusyProcessIsSound) {
  TestSession session;
  collector().start(session);
  record();
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) {
      record();
    }
  });
  for (int child = 0; child < 20; ++child) {
    EXPECT_TRUE(holds_in_child([&] {
      TestSession own;
      collector().start(own);
      record();
      return calls_seen(own) == 1 && calls_seen(session) > 0;
    }));
  }
  done = true;
  busy.join();
}

}  // namespace
}  // namespace headscope::session
