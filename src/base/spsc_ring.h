#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace headscope::base {

/// A bounded queue between one producer and one consumer at a time. Neither locks nor allocates.
/// Several threads may take turns as consumer when something else (a SpinFlag) orders them.
template <class T, std::size_t kSlots>
class SpscRing {
  static_assert((kSlots & (kSlots - 1)) == 0, "a power of two, so that positions may wrap");

 public:
  static constexpr std::size_t kCapacity = kSlots;

  /// Producer. False when full; `value` is then untouched.
  [[nodiscard]] bool try_push(T&& value) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kSlots) {
      return false;
    }
    slots_[tail & (kSlots - 1)] = std::move(value);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Exact for the producer and the consumer, a hint for others.
  [[nodiscard]] std::size_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(tail_.load(std::memory_order_acquire) - head);
  }

  /// Consumer. Gives every element that was there on entry to `take`, oldest first. `take` must not throw.
  template <class Take>
  std::size_t drain(Take&& take) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    const std::uint64_t begin = head_.load(std::memory_order_relaxed);
    for (std::uint64_t head = begin; head != tail; ++head) {
      T value = std::move(slots_[head & (kSlots - 1)]);
      head_.store(head + 1, std::memory_order_release);
      take(std::move(value));
    }
    return static_cast<std::size_t>(tail - begin);
  }

  /// Empties the ring of a producer that vanished (fork): its last slot may be half written, so the slots
  /// are built anew and what they owned leaks.
  void abandon() noexcept {
    for (T& slot : slots_) {
      std::construct_at(&slot);
    }
    head_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

 private:
  // Apart, since each is written by another thread.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::array<T, kSlots> slots_{};
};

}  // namespace headscope::base
