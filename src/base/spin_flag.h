#pragma once

#include <atomic>
#include <thread>

namespace headscope::base {

/// A lock of one byte for short sections. Meets Lockable. Waiters yield, so that a holder that lost
/// its core gets it back.
class SpinFlag {
 public:
  [[nodiscard]] bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }

  void lock() noexcept {
    while (!try_lock()) {
      while (held_.load(std::memory_order_relaxed)) {
        std::this_thread::yield();
      }
    }
  }

  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace headscope::base
