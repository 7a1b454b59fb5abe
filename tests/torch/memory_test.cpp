// Allocations of a call against a second, independent counter.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

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
  constexpr std::int64_t kMatrix = std::int64_t{2} * 256 * 256 * 4;
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

/// What an allocator of a GPU tells.
void report_gpu_allocation(std::int64_t bytes, c10::DeviceIndex index = 0) {
  c10::reportMemoryUsageToProfiler(nullptr, bytes, 0, 0, c10::Device(c10::kCUDA, index));
}

at::Tensor attend_with_a_buffer_on_another_device(const at::Tensor& q, const at::Tensor& /*k*/,
                                                  const at::Tensor& /*v*/) {
  report_gpu_allocation(1 << 20);
  return q.clone();
}

TORCH_LIBRARY(headscope_memory_test, library) {
  library.def("attend(Tensor query, Tensor key, Tensor value) -> Tensor");
}
TORCH_LIBRARY_IMPL(headscope_memory_test, CPU, library) {
  library.impl("attend", attend_with_a_buffer_on_another_device);
}

TEST(Memory, AllocationsOnAnotherDeviceAreNoneOfTheCalls) {
  AttentionOpSpec spec;
  spec.op = "headscope_memory_test::attend";
  spec.variant = "mine";
  register_attention_op(spec);
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("headscope_memory_test::attend", "")
                      .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>();
  const at::Tensor x = some_heads();
  const AttentionProfiler profiler;
  op.call(x, x, x);
  EXPECT_EQ(profiler.get_stats().total.peak_bytes, 2 * 4 * 8 * 4);
}

TEST(ScopeMemory, EachDeviceHasItsPeak) {
  const AttentionProfiler profiler{{.memory = Memory::kScope}};
  report_gpu_allocation(300, 1);
  report_gpu_allocation(-300, 1);
  report_gpu_allocation(200, 1);
  const std::vector<DevicePeak> devices = profiler.get_stats().memory.devices;
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].device, "cpu");
  EXPECT_EQ(devices[1], (DevicePeak{.device = "cuda:1", .peak_bytes = 300}));
}

TEST(ScopeMemory, SlotIsEmptyAfterTheScope) {
  {
    const AttentionProfiler profiler{{.memory = Memory::kScope}};
  }
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
}

TEST(ScopeMemory, SlotIsEmptyAfterNestedScopesThatEndInAnyOrder) {
  AttentionProfiler outer{{.memory = Memory::kScope}};
  AttentionProfiler inner{{.memory = Memory::kScope}};
  outer.stop();
  EXPECT_NE(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
  inner.stop();
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
}

TEST(ScopeMemory, AnotherProfilersSlotIsLeftAloneAndSaid) {
  auto counter = std::make_shared<Counter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  const AttentionProfiler profiler{{.memory = Memory::kScope}};
  at::ones({100});
  EXPECT_EQ(counter->allocated(), 400);
  EXPECT_NE(profiler.get_stats().memory.incomplete, "");
}

TEST(ScopeMemory, OtherThreadsAreNotCounted) {
  const AttentionProfiler profiler{{.memory = Memory::kScope}};
  std::thread([] { at::ones({100}); }).join();
  EXPECT_EQ(profiler.get_stats().memory.devices.at(0).peak_bytes, 0);
}

TEST(ScopeMemory, ThreadsThatInheritTheSlotCountTogether) {
  const AttentionProfiler profiler{{.memory = Memory::kScope}};
  const at::ThreadLocalState state;
  const auto allocate = [&state] {
    const at::ThreadLocalStateGuard guard(state);
    for (int i = 0; i < 10'000; ++i) {
      report_gpu_allocation(1);
    }
  };
  std::thread first(allocate);
  std::thread second(allocate);
  first.join();
  second.join();
  EXPECT_EQ(profiler.get_stats().memory.devices.at(1).peak_bytes, 20'000);
}

TEST(ScopeMemory, LeavesTheSlotToAProfilerThatAsks) {
  const AttentionProfiler profiler{{.memory = Memory::kScope}};
  EXPECT_NE(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
  torch_profiler_starts();
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
  torch_profiler_starts();
  EXPECT_NE(profiler.get_stats().memory.incomplete, "");
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
