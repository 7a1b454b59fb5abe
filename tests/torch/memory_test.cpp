// Allocations of a call against a second, independent counter.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "headscope/headscope.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

class Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t bytes, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    level_ += bytes;
    peak_ = std::max(peak_, level_);
    allocated_ += std::max<std::int64_t>(bytes, 0);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::int64_t allocated() const noexcept { return allocated_; }

 private:
  std::int64_t level_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t allocated_ = 0;
};

/// Which kernels scaled_dot_product_attention may choose from.
class MathOnly {
 public:
  MathOnly() { at::globalContext().setSDPUseFlash(false); }
  MathOnly(const MathOnly&) = delete;
  MathOnly& operator=(const MathOnly&) = delete;
  ~MathOnly() { at::globalContext().setSDPUseFlash(true); }
};

at::Tensor long_sequence() { return at::ones({1, 2, 256, 32}); }

/// What one call allocates, by the independent counter.
std::shared_ptr<Counter> counted_call(const at::Tensor& x) {
  auto counter = std::make_shared<Counter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  attend(x);
  return counter;
}

Stats profiled_call(const at::Tensor& x, Memory memory = Memory::kCalls) {
  const AttentionProfiler profiler{{.memory = memory}};
  attend(x);
  return profiler.get_stats();
}

TEST(Memory, FlashPeakIsWhatAnIndependentCounterSays) {
  const at::Tensor x = long_sequence();
  attend(x);
  EXPECT_EQ(profiled_call(x).total.peak_bytes, counted_call(x)->peak());
}

TEST(Memory, FlashAllocationsAreWhatAnIndependentCounterSays) {
  const at::Tensor x = long_sequence();
  attend(x);
  EXPECT_EQ(profiled_call(x).total.allocated_bytes, Count(counted_call(x)->allocated()));
}

TEST(Memory, MathPeakIsWhatAnIndependentCounterSays) {
  const MathOnly math;
  const at::Tensor x = long_sequence();
  attend(x);
  EXPECT_EQ(profiled_call(x).total.peak_bytes, counted_call(x)->peak());
}

TEST(Memory, MathAllocationsAreWhatAnIndependentCounterSays) {
  const MathOnly math;
  const at::Tensor x = long_sequence();
  attend(x);
  EXPECT_EQ(profiled_call(x).total.allocated_bytes, Count(counted_call(x)->allocated()));
}

TEST(Memory, MathAllocatesWholeScoreMatrices) {
  const MathOnly math;
  const auto scores = profiled_call(long_sequence()).total.score_bytes;
  ASSERT_TRUE(scores);
  constexpr std::int64_t kMatrix = 2 * 256 * 256 * 4;
  EXPECT_GE(*scores, 2 * kMatrix);  // the scores and the probabilities
  EXPECT_EQ(*scores % kMatrix, 0);
}

TEST(Memory, FlashAllocatesNoScoreMatrix) { EXPECT_EQ(profiled_call(long_sequence()).total.score_bytes, 0); }

TEST(Memory, IsUnknownWhenSwitchedOff) {
  const Stats stats = profiled_call(long_sequence(), Memory::kOff);
  EXPECT_EQ(stats.total.peak_bytes, std::nullopt);
  EXPECT_EQ(stats.total.allocated_bytes, std::nullopt);
}

TEST(Memory, AnotherProfilersSlotIsLeftAlone) {
  auto counter = std::make_shared<Counter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  const Stats stats = profiled_call(long_sequence());
  EXPECT_EQ(stats.total.peak_bytes, std::nullopt);  // the slot was taken: unknown, not 0
  EXPECT_GT(counter->allocated(), 0);
}

TEST(Memory, SlotIsEmptyAfterACall) {
  profiled_call(long_sequence());
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
}

TEST(Memory, SlotIsEmptyAfterACallThatRaised) {
  const AttentionProfiler profiler;
  EXPECT_ANY_THROW(attend_wrongly());
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
}

TEST(Memory, OtherDebugInfoOfTheThreadSurvivesACall) {
  const auto info = std::make_shared<Counter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::TEST_INFO, info);
  const Stats stats = profiled_call(long_sequence());
  EXPECT_TRUE(stats.total.peak_bytes);
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO), info.get());
}

}  // namespace
}  // namespace headscope::torch_tests
