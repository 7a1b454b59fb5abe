#pragma once

#include <atomic>

namespace headscope::capture {

/// Holds a flag if it was free; never waits.
class TryLock {
 public:
  explicit TryLock(std::atomic_flag& flag) noexcept
      : flag_(flag), owned_(!flag.test_and_set(std::memory_order_acquire)) {}
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;
  ~TryLock() {
    if (owned_) {
      flag_.clear(std::memory_order_release);
    }
  }
  [[nodiscard]] bool owned() const noexcept { return owned_; }

 private:
  std::atomic_flag& flag_;
  bool owned_;
};

/// Tries of a reader whose answer matters: a writer holds an entry for some tens of nanoseconds.
inline constexpr int kLockTries = 1000;

}  // namespace headscope::capture
