#include "timeline/cupti/buffer_pool.h"

#include <algorithm>
#include <cstdlib>

namespace headscope::timeline::cupti {
namespace {

/// For a CUPTI that must get a buffer when memory has run out. Shared by whoever needs it and never read.
alignas(BufferPool::kAlignment) std::array<std::uint8_t, BufferPool::kScrapBytes> g_last_resort;

}  // namespace

BufferPool::~BufferPool() {
  for (const Slot& slot : slots_) {
    std::free(slot.data);
  }
}

void BufferPool::configure(const PoolLimits& limits, bool may_refuse) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  limits_.buffers = std::min(limits.buffers, kSlots / 2);
  may_refuse_ = may_refuse;
  for (Slot& slot : slots_) {
    if (slot.state == State::kGiven && !slot.given_up) {
      slot.given_up = true;
      regular_ -= slot.scrap ? 0 : 1;
    }
  }
}

BufferPool::Slot* BufferPool::find_free(bool scrap) noexcept {
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree && slot.scrap == scrap) {
      return &slot;
    }
  }
  return nullptr;
}

BufferPool::Slot* BufferPool::allocate(bool scrap) noexcept {
  if (!scrap && regular_ >= limits_.buffers) {
    return nullptr;
  }
  for (Slot& slot : slots_) {
    if (slot.state != State::kEmpty) {
      continue;
    }
    void* memory = nullptr;
    const std::size_t bytes = scrap ? kScrapBytes : limits_.buffer_bytes;
    if (posix_memalign(&memory, kAlignment, bytes) != 0) {
      return nullptr;
    }
    slot.data = static_cast<std::uint8_t*>(memory);
    slot.bytes = bytes;
    slot.scrap = scrap;
    regular_ += scrap ? 0 : 1;
    bytes_ += bytes;
    return &slot;
  }
  return nullptr;
}

void BufferPool::request(std::uint8_t** buffer, std::size_t* size) noexcept {
  const std::lock_guard lock(mutex_);
  Slot* slot = find_free(false);
  if (slot == nullptr) {
    slot = allocate(false);
  }
  if (slot == nullptr && !may_refuse_) {
    slot = find_free(true);
    if (slot == nullptr) {
      slot = allocate(true);
    }
    if (slot == nullptr) {
      *buffer = g_last_resort.data();
      *size = g_last_resort.size();
      return;
    }
  }
  if (slot == nullptr) {
    *buffer = nullptr;
    *size = 0;
    return;
  }
  slot->state = State::kGiven;
  slot->order = ++events_;
  *buffer = slot->data;
  *size = slot->bytes;
}

void BufferPool::complete(std::uint8_t* buffer, std::size_t valid_bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [buffer](const Slot& candidate) {
      return candidate.state == State::kGiven && candidate.data == buffer;
    });
    if (slot == slots_.end()) {
      foreign_ += buffer == g_last_resort.data() ? 0 : 1;
      return;
    }
    if (slot->given_up) {
      slot->given_up = false;
      regular_ += slot->scrap ? 0 : 1;
    }
    slot->valid_bytes = std::min(valid_bytes, slot->bytes);
    slot->order = ++events_;
    slot->state = State::kCompleted;
    ++waiting_;
  }
  completed_.notify_one();
}

std::optional<BufferPool::Completed> BufferPool::take_completed(std::uint64_t mark) {
  const std::lock_guard lock(mutex_);
  Slot* first = nullptr;
  if (waiting_ != 0) {
    for (Slot& slot : slots_) {
      if (slot.state == State::kCompleted && slot.order <= mark && (first == nullptr || slot.order < first->order)) {
        first = &slot;
      }
    }
  }
  if (first == nullptr) {
    return std::nullopt;
  }
  first->state = State::kBeingRead;
  --waiting_;
  return Completed{static_cast<std::size_t>(first - slots_.data()), first->data, first->valid_bytes, first->scrap};
}

void BufferPool::recycle(const Completed& completed) {
  const std::lock_guard lock(mutex_);
  slots_[completed.slot].state = State::kFree;
}

bool BufferPool::wait_for_completed() {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [this] { return woken_ || waiting_ != 0; });
  return !woken_;
}

void BufferPool::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  completed_.notify_all();
}

void BufferPool::rearm() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
}

std::size_t BufferPool::outstanding() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::kGiven; }));
}

std::uint64_t BufferPool::mark() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::size_t BufferPool::outstanding_since(std::uint64_t mark) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [mark](const Slot& slot) {
    return slot.state == State::kGiven && !slot.given_up && slot.order <= mark;
  }));
}

std::uint64_t BufferPool::foreign() const {
  const std::lock_guard lock(mutex_);
  return foreign_;
}

std::uint64_t BufferPool::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void BufferPool::trim() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree) {
      std::free(slot.data);
      bytes_ -= slot.bytes;
      regular_ -= slot.scrap ? 0 : 1;
      slot = Slot{};
    }
  }
}

}  // namespace headscope::timeline::cupti
