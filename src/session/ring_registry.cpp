#include "session/ring_registry.h"

namespace headscope::session {

ThreadRing* RingRegistry::take() {
  if (parked_ != nullptr) {
    ThreadRing* ring = parked_;
    parked_ = ring->next_parked;
    ring->next_parked = nullptr;
    ring->take_over();
    return ring;
  }
  if (size_ == kMaxRings) {
    return nullptr;
  }
  std::atomic<Chunk*>& chunk = chunks_[size_ / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Chunk{}, std::memory_order_release);
  }
  auto* ring = new ThreadRing(static_cast<std::uint32_t>(size_));
  ring->take_over();
  (*chunk.load(std::memory_order_relaxed))[size_ % kChunk].store(ring, std::memory_order_release);
  ++size_;
  return ring;
}

void RingRegistry::park(ThreadRing& ring) noexcept {
  ring.next_parked = parked_;
  parked_ = &ring;
}

}  // namespace headscope::session
