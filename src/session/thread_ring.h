#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/spin_flag.h"
#include "base/spsc_ring.h"
#include "records/attention_call.h"
#include "session/order_bases.h"
#include "session/pending_call.h"
#include "session/session.h"

namespace headscope::session {

/// Where one thread's calls wait to be folded. Never freed: when its thread ends another one takes it over.
struct ThreadRing {
  explicit ThreadRing(std::uint32_t place) : index(place) {}

  /// Number of the calls since the thread took the ring over: LayerRef::thread of its calls. Never 0; the low
  /// 16 bits are `index`.
  [[nodiscard]] std::uint32_t thread() const noexcept { return thread_id.load(std::memory_order_relaxed); }
  static std::uint32_t index_of(std::uint32_t thread) noexcept { return thread & 0xffffU; }

  /// The ring passes to another thread; its predecessor's calls are folded.
  void take_over() noexcept {
    std::uint32_t turn = (thread_id.load(std::memory_order_relaxed) >> 16) + 1;
    if ((turn & 0xffffU) == 0) {
      turn = 1;
    }
    thread_id.store((turn << 16) | index, std::memory_order_relaxed);
  }

  const std::uint32_t index;
  std::atomic<std::uint32_t> thread_id{0};
  base::SpscRing<records::AttentionCall, 256> calls;
  /// Unnamed forward calls so far; written by the thread alone. Goes on when the ring is taken over.
  std::atomic<std::uint64_t> unnamed{0};

  /// Held by whoever empties `calls` or touches `partials` or `pending`.
  base::SpinFlag draining;
  std::array<std::unique_ptr<Partial>, kMaxRunning> partials;
  std::vector<PendingCall> pending;  ///< drained, and not folded yet

  /// By slot. Written under the Collector's lock, read by whoever folds a call whose forward ran here.
  std::array<OrderBases, kMaxRunning> bases;

  /// Of the list of rings without a thread.
  ThreadRing* next_parked = nullptr;
};

}  // namespace headscope::session
