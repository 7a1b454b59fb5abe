// A child of a process that traced must never touch CUPTI again.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "cupti/fixture.h"

namespace headscope::timeline::cupti {
namespace {

/// Whether `check` holds in a forked child, within ten seconds.
bool holds_in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(DeviceClock, InAForkedChildItIsInertForGood) {
  start();
  launch_in_op();
  const std::uint64_t calls = fake_cupti_state().calls;
  EXPECT_TRUE(holds_in_child([&] {
    const bool inert = clock().open_op({}) == 0 && clock().take().spans.empty();
    clock().close_op(1);
    clock().flush();
    clock().stop();
    return inert && start().reason == Reason::kForked && !clock().status().text.empty() &&
           fake_cupti_state().calls == calls;
  }));
}

TEST_F(DeviceClock, TheParentGoesOnAfterAFork) {
  start();
  const std::uint64_t first = launch_in_op();
  EXPECT_TRUE(holds_in_child([] { return true; }));
  const std::uint64_t second = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ::testing::ElementsAre(first, second));
}

TEST_F(DeviceClock, AChildForkedBetweenSessionsIsInertToo) {
  start();
  clock().stop();
  EXPECT_TRUE(holds_in_child([] { return start().reason == Reason::kForked; }));
}

TEST_F(DeviceClock, AForkWhileBuffersAreReadIsSound) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "gcc's AddressSanitizer does not hold its allocator's locks over fork(): a child of a busy process "
                  "may wait for one for ever";
#endif
  clock().set_limits({.buffer_bytes = 1024, .buffers = 8});
  start();
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) {
      launch_in_op();
    }
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(holds_in_child([] {
      clock().flush();
      clock().stop();
      return clock().open_op({}) == 0 && start().reason == Reason::kForked;
    }));
  }
  done = true;
  busy.join();
}

TEST_F(DeviceClock, AChildForkedBeforeAnyTracingTracesByItself) {
  if (!clock().library_path().empty()) {
    GTEST_SKIP() << "another test of this process has loaded CUPTI; ctest runs each in its own";
  }
  EXPECT_TRUE(holds_in_child([] {
    if (!start().enabled()) {
      return false;
    }
    launch_in_op();
    return stop_and_take().spans.size() == 1;
  }));
}

}  // namespace
}  // namespace headscope::timeline::cupti
