// Counts every allocation by operator new in this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "unit/session/fixture.h"

namespace {

std::atomic<std::uint64_t> g_allocations{0};
std::atomic<std::int64_t> g_living{0};

void* counted(std::size_t size, std::size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  g_living.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded)) {
    return memory;
  }
  throw std::bad_alloc();
}

void release(void* memory) noexcept {
  if (memory != nullptr) {
    g_living.fetch_sub(1, std::memory_order_relaxed);
    std::free(memory);
  }
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { release(memory); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace headscope::session {
namespace {

/// Twelve layers of a model, forward and backward, in a step.
void run_steps(Session& session, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < 12; ++layer) {
      record();
    }
    collector().step(session);
  }
}

template <class Work>
std::uint64_t allocations_of(Work&& work) {
  const std::uint64_t before = g_allocations;
  work();
  return g_allocations - before;
}

TEST(Allocation, NoneAfterWarmUp) {
  TestSession session({.keep_calls = 20});
  collector().start(session);
  run_steps(session, 100);
  EXPECT_EQ(allocations_of([&] { run_steps(session, 1'000); }), 0U);
}

TEST(Allocation, NoneWhileNobodyWatches) {
  record();
  EXPECT_EQ(allocations_of([] {
              for (int call = 0; call < 1'000; ++call) {
                record();
              }
            }),
            0U);
}

TEST(Allocation, SnapshotCostsNoMoreAfterManyCalls) {
  TestSession session;
  collector().start(session);
  run_steps(session, 84);  // about 10³ calls
  const std::uint64_t early = allocations_of([&] { stats_of(session); });
  run_steps(session, 84'000);  // about 10⁶
  EXPECT_LE(allocations_of([&] { stats_of(session); }), early);
}

TEST(Allocation, MemoryStaysFlatOverManyThreads) {
  TestSession session;
  collector().start(session);
  const auto one_thread = [&] { on_another_thread([] { record(); }); };
  one_thread();
  one_thread();  // a row's second call makes its sketch
  const std::int64_t living = g_living;
  for (int thread = 0; thread < 200; ++thread) {
    one_thread();
  }
  EXPECT_LE(g_living, living);
}

TEST(Allocation, StoppedSessionLeavesNothingBehind) {
  {
    TestSession warm_up;
    collector().start(warm_up);
    record();
  }
  const std::int64_t living = g_living;
  {
    TestSession session;
    collector().start(session);
    run_steps(session, 10);
    stats_of(session);
  }
  EXPECT_EQ(g_living, living);
}

}  // namespace
}  // namespace headscope::session
