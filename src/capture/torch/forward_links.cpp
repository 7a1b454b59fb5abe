#include "capture/torch/forward_links.h"

#include "capture/try_lock.h"

namespace headscope::capture::torch {

std::size_t ForwardLinks::bucket_of(StorageId saved) noexcept {
  // The finaliser of splitmix64: addresses of equal distance must not crowd a few buckets.
  std::uint64_t hash = saved;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<std::size_t>(hash ^ (hash >> 31)) % kBuckets;
}

void ForwardLinks::put(const WeakStorage& saved, const ForwardInfo& info) noexcept {
  if (!saved.alive()) {
    return;
  }
  forget_freed();
  auto& bucket = buckets_[bucket_of(saved.id())];
  Entry* target = nullptr;
  for (Entry& entry : bucket) {
    const TryLock lock(entry.busy);
    if (!lock.owned()) {
      continue;
    }
    if (entry.saved.id() == saved.id() || entry.saved.id() == 0) {
      target = &entry;
      break;
    }
    if (target == nullptr || entry.info.call_id < target->info.call_id) {
      target = &entry;
    }
  }
  if (target == nullptr) {
    return;
  }
  const TryLock lock(target->busy);
  if (lock.owned()) {
    target->saved = saved;
    target->info = info;
  }
}

void ForwardLinks::forget_freed() noexcept {
  for (Entry& entry : buckets_[next_to_clean_.fetch_add(1, std::memory_order_relaxed) % kBuckets]) {
    const TryLock lock(entry.busy);
    if (lock.owned() && entry.saved.id() != 0 && !entry.saved.alive()) {
      entry.saved = {};
      entry.info = {};
    }
  }
}

std::optional<ForwardInfo> ForwardLinks::find(StorageId saved) const noexcept {
  if (saved == 0) {
    return std::nullopt;
  }
  for (const Entry& entry : buckets_[bucket_of(saved)]) {
    for (int tries = 0; tries < kLockTries; ++tries) {
      const TryLock lock(entry.busy);
      if (!lock.owned()) {
        continue;
      }
      if (entry.saved.id() == saved) {
        return entry.info;
      }
      break;
    }
  }
  return std::nullopt;
}

}  // namespace headscope::capture::torch
