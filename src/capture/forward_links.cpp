#include "capture/forward_links.h"

#include "capture/try_lock.h"

namespace headscope::capture {

std::size_t ForwardLinks::bucket_of(StorageId saved) noexcept {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;  // Fibonacci hashing: spreads aligned addresses
  constexpr int kShift = 52;
  static_assert(kBuckets == std::size_t{1} << (64 - kShift));
  return static_cast<std::size_t>((static_cast<std::uint64_t>(saved) * kGolden) >> kShift);
}

void ForwardLinks::put(StorageId saved, const ForwardInfo& info) noexcept {
  if (saved == 0) {
    return;
  }
  auto& bucket = buckets_[bucket_of(saved)];
  Entry* target = nullptr;
  for (Entry& entry : bucket) {
    const TryLock lock(entry.busy);
    if (!lock.owned()) {
      continue;
    }
    if (entry.saved == saved || entry.saved == 0) {
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
      if (entry.saved == saved) {
        return entry.info;
      }
      break;
    }
  }
  return std::nullopt;
}

}  // namespace headscope::capture
