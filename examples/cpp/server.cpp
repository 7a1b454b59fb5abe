// A server with a paged KV cache: requests arrive at random, threads decode them, and headscope keeps the books of the
// cache. At the end of each round its occupancy is compared with the server's own.

#include <headscope/headscope.h>
#include <torch/torch.h>

#include <cstdint>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kDim = 32;
constexpr int64_t kBlockSize = 16;
constexpr int64_t kBlocks = 96;
constexpr int kThreads = 4;
constexpr int kRounds = 20;

struct Request {
  headscope::KvCacheTracker::Sequence sequence = 0;
  std::vector<std::uint32_t> blocks;
  int64_t tokens = 0;
  int64_t wanted = 0;
};

// The cache itself: K and V of all blocks, and which of them are free.
class Server {
 public:
  Server()
      : books_({.name = "server",
                .kv_heads = kHeads,
                .head_dim = kDim,
                .element_size = 4.0,
                .block_size = kBlockSize,
                .blocks = kBlocks}),
        keys_(torch::zeros({kBlocks, kBlockSize, kHeads, kDim})),
        values_(torch::zeros({kBlocks, kBlockSize, kHeads, kDim})) {
    for (std::uint32_t block = kBlocks; block-- > 0;) {
      free_.push_back(block);
    }
  }

  // False when the cache is full.
  bool admit(int64_t prompt, int64_t wanted) {
    const std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(free_.size()) * kBlockSize < prompt + wanted) {
      return false;
    }
    Request request{.sequence = books_.add_sequence(), .wanted = prompt + wanted};
    grow(request, prompt);
    requests_.push_back(request);
    return true;
  }

  // One token of every `stride`-th request from `first` on.
  void decode(std::size_t first, std::size_t stride) {
    const torch::InferenceMode no_gradients;
    for (std::size_t i = first; i < requests_.size(); i += stride) {
      Request& request = requests_[i];
      {
        const std::lock_guard lock(mutex_);
        grow(request, 1);
      }
      const auto table = torch::tensor(std::vector<int64_t>(request.blocks.begin(), request.blocks.end()));
      const auto pages = [&](const at::Tensor& pool) {
        return pool.index_select(0, table).flatten(0, 1).slice(0, 0, request.tokens).transpose(0, 1).unsqueeze(0);
      };
      at::scaled_dot_product_attention(torch::randn({1, kHeads, 1, kDim}), pages(keys_), pages(values_));
    }
  }

  void retire() {
    std::erase_if(requests_, [this](const Request& request) {
      if (request.tokens < request.wanted) {
        return false;
      }
      free_.insert(free_.end(), request.blocks.begin(), request.blocks.end());
      books_.free_sequence(request.sequence);
      return true;
    });
  }

  // Blocks and slots in use, counted from the requests.
  std::pair<int64_t, int64_t> in_use() const {
    std::pair<int64_t, int64_t> sums;
    for (const Request& request : requests_) {
      sums.first += static_cast<int64_t>(request.blocks.size());
      sums.second += request.tokens;
    }
    return sums;
  }

 private:
  void grow(Request& request, int64_t tokens) {
    std::vector<std::uint32_t> given;
    while (static_cast<int64_t>(request.blocks.size()) * kBlockSize < request.tokens + tokens) {
      given.push_back(free_.back());
      request.blocks.push_back(free_.back());
      free_.pop_back();
    }
    books_.give_blocks(request.sequence, given);
    books_.append(request.sequence, tokens);
    request.tokens += tokens;
  }

  headscope::KvCacheTracker books_;
  at::Tensor keys_;
  at::Tensor values_;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::vector<Request> requests_;
};

}  // namespace

int main() {
  torch::manual_seed(0);
  at::set_num_threads(1);
  std::mt19937 random(0);
  headscope::AttentionProfiler profiler;
  Server server;
  int agreeing = 0;
  for (int round = 0; round < kRounds; ++round) {
    {
      const headscope::StageScope stage(profiler, "schedule");
      for (auto arrivals = random() % 4; arrivals > 0; --arrivals) {
        server.admit(1 + static_cast<int64_t>(random() % 60), 1 + static_cast<int64_t>(random() % 30));
      }
    }
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&server, thread] {
        const headscope::LayerScope layer("decoder.0");
        server.decode(thread, kThreads);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    server.retire();
    profiler.step();

    const auto [blocks, slots] = server.in_use();
    const headscope::KvCacheRow row = profiler.get_stats().kv_cache.at(0);
    agreeing += row.blocks->used == blocks && row.blocks->slots_written == slots ? 1 : 0;
  }
  std::cout << headscope::to_text(profiler.get_stats());
  std::cout << "occupancy agrees with the server's own in " << agreeing << " of " << kRounds << " rounds\n";
  return agreeing == kRounds ? 0 : 1;
}
