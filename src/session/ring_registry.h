#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "session/thread_ring.h"

namespace headscope::session {

/// All rings of the process. As many as threads were alive at once, since parked ones are reused.
/// Taking, parking and iterating need the Collector's lock; at() needs none.
class RingRegistry {
 public:
  static constexpr std::size_t kChunk = 64;
  static constexpr std::size_t kMaxRings = 65'536;

  /// A parked ring or a fresh one; nullptr when kMaxRings threads have one. Throws std::bad_alloc.
  ThreadRing* take();
  void park(ThreadRing& ring) noexcept;
  void forget_parked() noexcept { parked_ = nullptr; }

  /// nullptr when there is none.
  [[nodiscard]] ThreadRing* at(std::uint32_t index) const noexcept {
    const Chunk* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : (*chunk)[index % kChunk].load(std::memory_order_acquire);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) {
      visit(*at(static_cast<std::uint32_t>(i)));
    }
  }

 private:
  using Chunk = std::array<std::atomic<ThreadRing*>, kChunk>;

  std::array<std::atomic<Chunk*>, kMaxRings / kChunk> chunks_{};
  std::size_t size_ = 0;
  ThreadRing* parked_ = nullptr;
};

}  // namespace headscope::session
