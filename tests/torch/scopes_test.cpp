// The scope of a profiler: what it sees, whatever happens inside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headscope/headscope.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> layers_of(const Stats& stats) {
  std::vector<std::string> layers;
  for (const AttentionRow& row : stats.attention_breakdown) {
    layers.push_back(row.layer);
  }
  return layers;
}

TEST(Scope, SeesTheCallsOfItsLifeOnly) {
  const at::Tensor x = some_heads();
  attend(x);
  const AttentionProfiler profiler;
  attend(x);
  attend(x);
  EXPECT_EQ(calls_of(profiler.get_stats()), 2U);
}

TEST(Scope, EndsWhenAnExceptionLeavesIt) {
  EXPECT_ANY_THROW({
    const AttentionProfiler profiler;
    attend_wrongly();
  });
  const AttentionProfiler later;
  attend(some_heads());
  EXPECT_EQ(calls_of(later.get_stats()), 1U);
}

TEST(Scope, CallThatRaisedIsCountedAsFailedAndInNoRow) {
  const AttentionProfiler profiler;
  EXPECT_ANY_THROW(attend_wrongly());
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(calls_of(stats), 0U);
  EXPECT_EQ(stats.diagnostics.calls_failed, 1U);
}

TEST(Scope, CallsAfterOneThatRaisedAreSeenWhole) {
  const AttentionProfiler profiler;
  EXPECT_ANY_THROW(attend_wrongly());
  attend(some_heads(), true);
  // 2 heads × (1+2+3+4) pairs × 2 × (8+8).
  EXPECT_EQ(profiler.get_stats().total.flops, Count{640});
}

TEST(Scope, OuterProfilerSeesTheInnersCallsToo) {
  const AttentionProfiler outer;
  attend(some_heads());
  {
    const AttentionProfiler inner;
    attend(some_heads());
  }
  EXPECT_EQ(calls_of(outer.get_stats()), 2U);
}

TEST(Scope, InnerProfilerSeesItsOwnCallsOnly) {
  const AttentionProfiler outer;
  attend(some_heads());
  const AttentionProfiler inner;
  attend(some_heads());
  EXPECT_EQ(calls_of(inner.get_stats()), 1U);
}

TEST(Scope, SixteenProfilersRunAndASeventeenthIsRefused) {
  std::vector<AttentionProfiler> running(AttentionProfiler::kMaxRunning);
  EXPECT_THROW(AttentionProfiler(), Error);
}

TEST(Scope, SeesOtherThreads) {
  const AttentionProfiler profiler;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int call = 0; call < 300; ++call) {  // more than a thread's ring holds
        attend(some_heads());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(calls_of(profiler.get_stats()), 1200U);
}

TEST(Scope, OfTheCurrentThreadLeavesOthersOut) {
  const AttentionProfiler profiler{{.threads = Threads::kCurrent}};
  std::thread([] { attend(some_heads()); }).join();
  attend(some_heads());
  EXPECT_EQ(calls_of(profiler.get_stats()), 1U);
}

TEST(Scope, StatsCanBeReadWhileOtherThreadsRun) {
  const AttentionProfiler profiler;
  std::thread worker([] {
    for (int call = 0; call < 2000; ++call) {
      attend(some_heads());
    }
  });
  std::uint64_t last = 0;
  bool monotonic = true;
  for (int read = 0; read < 50; ++read) {
    const std::uint64_t calls = calls_of(profiler.get_stats());
    monotonic = monotonic && calls >= last;
    last = calls;
  }
  worker.join();
  EXPECT_TRUE(monotonic);
  EXPECT_EQ(calls_of(profiler.get_stats()), 2000U);
}

TEST(Scope, MovedProfilerKeepsRunning) {
  AttentionProfiler first;
  attend(some_heads());
  const AttentionProfiler second = std::move(first);
  attend(some_heads());
  EXPECT_EQ(calls_of(second.get_stats()), 2U);
}

TEST(Scope, ProfilerThatWasMovedFromSaysSo) {
  AttentionProfiler first;
  const AttentionProfiler second = std::move(first);
  EXPECT_THROW(static_cast<void>(first.get_stats()), Error);  // NOLINT(bugprone-use-after-move)
}

TEST(Scope, MoveAssignmentStopsTheProfilerThatIsReplaced) {
  AttentionProfiler target;
  target = AttentionProfiler{{.start_now = false}};
  EXPECT_FALSE(target.running());
}

TEST(Scope, StatsOutliveTheirProfiler) {
  Stats stats;
  {
    const AttentionProfiler profiler;
    attend(some_heads());
    stats = profiler.get_stats();
  }
  EXPECT_EQ(calls_of(stats), 1U);
}

TEST(Scope, PauseLeavesCallsOut) {
  AttentionProfiler profiler;
  attend(some_heads());
  profiler.pause();
  attend(some_heads());
  profiler.resume();
  attend(some_heads());
  EXPECT_EQ(calls_of(profiler.get_stats()), 2U);
}

TEST(Scope, StartAfterStopContinues) {
  AttentionProfiler profiler;
  attend(some_heads());
  profiler.stop();
  attend(some_heads());
  profiler.start();
  attend(some_heads());
  EXPECT_EQ(calls_of(profiler.get_stats()), 2U);
}

TEST(Scope, ResetForgets) {
  AttentionProfiler profiler;
  attend(some_heads());
  profiler.reset();
  EXPECT_EQ(calls_of(profiler.get_stats()), 0U);
}

TEST(Layers, WithoutNamesAreNumberedInOrder) {
  const AttentionProfiler profiler;
  attend(some_heads());
  attend(some_heads());
  EXPECT_THAT(layers_of(profiler.get_stats()), ElementsAre("attention[0]", "attention[1]"));
}

TEST(Layers, NumbersRestartAtStep) {
  AttentionProfiler profiler;
  attend(some_heads());
  profiler.step();
  attend(some_heads());
  const Stats stats = profiler.get_stats();
  EXPECT_THAT(layers_of(stats), ElementsAre("attention[0]"));
  EXPECT_EQ(stats.time.steps, 1);
}

TEST(Layers, InnermostScopeNamesTheCall) {
  const AttentionProfiler profiler;
  const LayerScope outer("decoder");
  {
    const LayerScope inner("decoder.3");
    attend(some_heads());
  }
  attend(some_heads());
  EXPECT_THAT(layers_of(profiler.get_stats()), ElementsAre("decoder.3", "decoder"));
}

TEST(Layers, ScopeBelongsToItsThread) {
  const AttentionProfiler profiler;
  const LayerScope scope("decoder.3");
  std::thread([] { attend(some_heads()); }).join();
  EXPECT_EQ(only_row(profiler.get_stats()).layer, "attention[0]");
}

TEST(Layers, ScopeEndsWhenAnExceptionLeavesIt) {
  const AttentionProfiler profiler;
  EXPECT_ANY_THROW({
    const LayerScope scope("decoder.3");
    attend_wrongly();
  });
  attend(some_heads());
  EXPECT_EQ(only_row(profiler.get_stats()).layer, "attention[0]");
}

TEST(Layers, BackwardHasTheLayerOfItsForward) {
  const AttentionProfiler profiler;
  const at::Tensor x = some_heads().requires_grad_();
  at::Tensor out;
  {
    const LayerScope scope("decoder.3");
    out = attend(x);
  }
  out.sum().backward();
  const auto backward = row_of(profiler.get_stats(), "sdpa_flash", Direction::kBackward);
  ASSERT_TRUE(backward);
  EXPECT_EQ(backward->layer, "decoder.3");
}

}  // namespace
}  // namespace headscope::torch_tests
