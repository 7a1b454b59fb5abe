#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace headscope::session {

/// Where the numbering of one thread's unnamed calls began, for one profiler: at its start and at each of its last
/// steps. A history, because a backward may be folded after the step() that followed its forward.
/// One writer at a time; readers need no lock.
class OrderBases {
 public:
  static constexpr std::size_t kSteps = 32;

  /// Forgets the history. Not while readers may come.
  void reset(std::uint64_t base) noexcept {
    bases_[0].store(base, std::memory_order_relaxed);
    count_.store(1, std::memory_order_release);
  }

  void push(std::uint64_t base) noexcept {
    const std::uint64_t count = count_.load(std::memory_order_relaxed);
    if (count > 0 && bases_[(count - 1) % kSteps].load(std::memory_order_relaxed) == base) {
      return;  // a step without unnamed calls takes no place in the history
    }
    bases_[count % kSteps].store(base, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_release);
  }

  /// Number within its step of the call with that order; std::nullopt for a call before the start or before the
  /// oldest step kept.
  [[nodiscard]] std::optional<std::uint64_t> number(std::uint64_t order) const noexcept {
    const std::uint64_t count = count_.load(std::memory_order_acquire);
    for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(count, kSteps); ++back) {
      // A base overwritten meanwhile is newer, hence above `order`, and is passed over like the others.
      const std::uint64_t base = bases_[(count - back) % kSteps].load(std::memory_order_relaxed);
      if (base <= order) {
        return order - base;
      }
    }
    return std::nullopt;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kSteps> bases_{};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace headscope::session
