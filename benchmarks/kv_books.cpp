// What keeping the books of a paged KV cache costs: 10^5 sequences of 8 blocks each.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <vector>

#include "headscope/kv_cache.h"

namespace headscope {
namespace {

constexpr std::uint32_t kSequences = 100'000;
constexpr std::uint32_t kBlocksEach = 8;
constexpr std::int64_t kBlockSize = 16;

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Filled {
  Filled() : cache({.layers = 32, .block_size = kBlockSize, .blocks = std::int64_t{kSequences} * kBlocksEach}) {
    sequences.reserve(kSequences);
    std::vector<std::uint32_t> blocks(kBlocksEach);
    for (std::uint32_t i = 0; i < kSequences; ++i) {
      for (std::uint32_t j = 0; j < kBlocksEach; ++j) {
        blocks[j] = i * kBlocksEach + j;
      }
      sequences.push_back(cache.add_sequence());
      cache.give_blocks(sequences.back(), blocks);
    }
  }

  std::vector<KvCacheTracker::Sequence> sequences;
  KvCacheTracker cache;
};

// First, while no freed memory of another one is at hand.
void memory_of_a_block(benchmark::State& state) {
  for (auto _ : state) {
    const std::int64_t before = resident_bytes();
    const Filled filled;
    state.counters["bytes"] = static_cast<double>(resident_bytes() - before) / (double{kSequences} * kBlocksEach);
  }
}
BENCHMARK(memory_of_a_block)->Iterations(1);

void append_of_a_token(benchmark::State& state) {
  auto filled = std::make_unique<Filled>();
  std::size_t at = 0;
  std::int64_t appended = 0;
  for (auto _ : state) {
    filled->cache.append(filled->sequences[at]);
    at = at + 1 == kSequences ? 0 : at + 1;
    if (++appended == std::int64_t{kSequences} * kBlocksEach * kBlockSize) {
      state.PauseTiming();
      filled = std::make_unique<Filled>();
      appended = 0;
      state.ResumeTiming();
    }
  }
}
BENCHMARK(append_of_a_token);

void occupancy_query(benchmark::State& state) {
  const Filled filled;
  for (auto _ : state) {
    benchmark::DoNotOptimize(filled.cache.use());
  }
}
BENCHMARK(occupancy_query);

}  // namespace
}  // namespace headscope
