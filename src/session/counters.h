#pragma once

#include <atomic>
#include <cstdint>

namespace headscope::session {

/// Process-wide counts of what is in no call.
struct Counters {
  std::uint64_t failed_calls = 0;
  std::uint64_t hook_errors = 0;
  std::uint64_t unfinished_chains = 0;
  std::int64_t hooks_ns = 0;  ///< estimated from the sampled hooks
  std::int64_t folding_ns = 0;
  std::int64_t sampling_ns = 0;  ///< of attention weights

  Counters& operator+=(const Counters& other) noexcept {
    failed_calls += other.failed_calls;
    hook_errors += other.hook_errors;
    unfinished_chains += other.unfinished_chains;
    hooks_ns += other.hooks_ns;
    folding_ns += other.folding_ns;
    sampling_ns += other.sampling_ns;
    return *this;
  }
  friend Counters operator-(Counters a, const Counters& b) noexcept {
    a.failed_calls -= b.failed_calls;
    a.hook_errors -= b.hook_errors;
    a.unfinished_chains -= b.unfinished_chains;
    a.hooks_ns -= b.hooks_ns;
    a.folding_ns -= b.folding_ns;
    a.sampling_ns -= b.sampling_ns;
    return a;
  }
  friend bool operator==(const Counters&, const Counters&) = default;
};

/// The same while threads count.
class LiveCounters {
 public:
  /// One hooked call in this many is timed.
  static constexpr std::int64_t kSampling = 64;

  void failed_call() noexcept { failed_calls_.fetch_add(1, std::memory_order_relaxed); }
  void hook_error() noexcept { hook_errors_.fetch_add(1, std::memory_order_relaxed); }
  void unfinished_chains(std::uint64_t chains) noexcept {
    unfinished_chains_.fetch_add(chains, std::memory_order_relaxed);
  }
  void sampled_hook(std::int64_t ns) noexcept { hooks_ns_.fetch_add(ns * kSampling, std::memory_order_relaxed); }
  void folding(std::int64_t ns) noexcept { folding_ns_.fetch_add(ns, std::memory_order_relaxed); }
  void sampling(std::int64_t ns) noexcept { sampling_ns_.fetch_add(ns, std::memory_order_relaxed); }

  [[nodiscard]] Counters read() const noexcept {
    return {.failed_calls = failed_calls_.load(std::memory_order_relaxed),
            .hook_errors = hook_errors_.load(std::memory_order_relaxed),
            .unfinished_chains = unfinished_chains_.load(std::memory_order_relaxed),
            .hooks_ns = hooks_ns_.load(std::memory_order_relaxed),
            .folding_ns = folding_ns_.load(std::memory_order_relaxed),
            .sampling_ns = sampling_ns_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> failed_calls_{0};
  std::atomic<std::uint64_t> hook_errors_{0};
  std::atomic<std::uint64_t> unfinished_chains_{0};
  std::atomic<std::int64_t> hooks_ns_{0};
  std::atomic<std::int64_t> folding_ns_{0};
  std::atomic<std::int64_t> sampling_ns_{0};
};

}  // namespace headscope::session
