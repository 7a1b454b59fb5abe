#include "timeline/cupti/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace headscope::timeline::cupti {
namespace {

struct Given {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

Given request(BufferPool& pool) {
  Given given;
  pool.request(&given.data, &given.size);
  return given;
}

TEST(BufferPool, GivesAlignedBuffersOfTheSizeThatWasAskedFor) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 4096, .buffers = 4}, true);
  const Given given = request(pool);
  ASSERT_NE(given.data, nullptr);
  EXPECT_EQ(given.size, 4096U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(given.data) % BufferPool::kAlignment, 0U);
  given.data[4095] = 1;
  pool.complete(given.data, 0);
}

TEST(BufferPool, RefusesBeyondItsLimitWhereCuptiTakesThat) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 1024, .buffers = 2}, true);
  request(pool);
  request(pool);
  const Given third = request(pool);
  EXPECT_EQ(third.data, nullptr);
  EXPECT_EQ(third.size, 0U);
}

TEST(BufferPool, GivesScrapBeyondItsLimitWhereCuptiWouldCrash) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 1024, .buffers = 1}, false);
  const Given own = request(pool);
  const Given scrap = request(pool);
  ASSERT_NE(scrap.data, nullptr);
  pool.complete(scrap.data, 100);
  pool.complete(own.data, 200);
  EXPECT_TRUE(pool.take_completed()->scrap);
  EXPECT_FALSE(pool.take_completed()->scrap);
}

TEST(BufferPool, GivesSomethingEvenWhenAllSlotsAreOut) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 1}, false);
  std::set<std::uint8_t*> distinct;
  for (std::size_t i = 0; i < BufferPool::kSlots + 5; ++i) {
    const Given given = request(pool);
    ASSERT_NE(given.data, nullptr);
    ASSERT_GE(given.size, 64U);
    distinct.insert(given.data);
  }
  EXPECT_EQ(distinct.size(), BufferPool::kSlots + 1) << "the last resort is shared";
  for (std::uint8_t* data : distinct) {
    pool.complete(data, 0);
  }
  EXPECT_EQ(pool.foreign(), 0U);
  while (const auto completed = pool.take_completed()) {
    pool.recycle(*completed);
  }
  pool.trim();
  EXPECT_EQ(pool.allocated_bytes(), 0U);
}

TEST(BufferPool, KeepsTheOrderOfCompletion) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 3}, true);
  const Given first = request(pool);
  const Given second = request(pool);
  pool.complete(second.data, 8);
  pool.complete(first.data, 16);
  EXPECT_EQ(pool.take_completed()->data, second.data);
  EXPECT_EQ(pool.take_completed()->data, first.data);
  EXPECT_FALSE(pool.take_completed());
}

TEST(BufferPool, GivesWhatWasCompleteAtAMark) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 3}, true);
  const Given first = request(pool);
  const Given second = request(pool);
  pool.complete(first.data, 8);
  const std::uint64_t mark = pool.mark();
  pool.complete(second.data, 8);
  EXPECT_EQ(pool.take_completed(mark)->data, first.data);
  EXPECT_FALSE(pool.take_completed(mark));
  EXPECT_EQ(pool.take_completed()->data, second.data);
}

TEST(BufferPool, NeverReadsBeyondItsBuffer) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 1}, true);
  pool.complete(request(pool).data, 1'000'000);
  EXPECT_EQ(pool.take_completed()->valid_bytes, 64U);
}

TEST(BufferPool, ABufferThatComesBackTwiceIsForeign) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 1}, true);
  const Given given = request(pool);
  pool.complete(given.data, 8);
  pool.complete(given.data, 8);
  EXPECT_EQ(pool.foreign(), 1U);
}

TEST(BufferPool, ABufferBeingReadIsNotGivenOutAgain) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 1}, true);
  pool.complete(request(pool).data, 8);
  const auto reading = pool.take_completed();
  EXPECT_EQ(request(pool).data, nullptr);
  pool.recycle(*reading);
  EXPECT_NE(request(pool).data, nullptr);
}

TEST(BufferPool, KnowsWhatWasOutAtAMark) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 4}, true);
  const Given before = request(pool);
  const std::uint64_t mark = pool.mark();
  request(pool);
  EXPECT_EQ(pool.outstanding(), 2U);
  EXPECT_EQ(pool.outstanding_since(mark), 1U);
  pool.complete(before.data, 8);
  EXPECT_EQ(pool.outstanding_since(mark), 0U);
}

TEST(BufferPool, ABufferThatAnEarlierSessionLostTakesNoRoom) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 1}, true);
  const Given lost = request(pool);
  pool.configure({.buffer_bytes = 64, .buffers = 1}, true);
  EXPECT_EQ(pool.outstanding_since(pool.mark()), 0U);
  EXPECT_NE(request(pool).data, nullptr);
  pool.complete(lost.data, 8);  // it came back after all
  EXPECT_EQ(pool.take_completed()->data, lost.data);
  EXPECT_EQ(pool.foreign(), 0U);
}

TEST(BufferPool, ServesThreadsWhileAnotherReads) {
  BufferPool pool;
  pool.configure({.buffer_bytes = 64, .buffers = 8}, true);
  std::uint64_t read = 0;
  std::thread reader([&] {
    while (pool.wait_for_completed()) {
      while (const auto completed = pool.take_completed()) {
        ++read;
        pool.recycle(*completed);
      }
    }
  });
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> sent{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        if (const Given given = request(pool); given.data != nullptr) {
          given.data[0] = 1;
          ++sent;
          pool.complete(given.data, 8);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  pool.wake();
  reader.join();
  while (pool.take_completed()) {
    ++read;
  }
  EXPECT_EQ(read, sent);
}

}  // namespace
}  // namespace headscope::timeline::cupti
