#include "capture/open_forwards.h"

#include <functional>

#include "capture/try_lock.h"

namespace headscope::capture {

OpenForwards::Entry& OpenForwards::entry_of(const records::OpInfo* op, std::uint32_t label,
                                            const records::Geometry& geometry) noexcept {
  std::uint64_t hash = std::hash<const void*>{}(op) + label;
  for (const std::int64_t size : {geometry.batch, geometry.heads, geometry.kv_heads, geometry.q_len, geometry.kv_len,
                                  geometry.head_dim, geometry.head_dim_v}) {
    constexpr std::uint64_t kPrime = 0x100000001B3ULL;  // FNV-1a
    hash = (hash ^ static_cast<std::uint64_t>(size)) * kPrime;
  }
  return entries_[(hash ^ (hash >> 32)) % kEntries];
}

void OpenForwards::open(const records::AttentionCall& call) noexcept {
  Entry& entry = entry_of(call.op, call.layer.label, call.geometry);
  const TryLock lock(entry.busy);
  if (!lock.owned()) {
    return;
  }
  if (entry.op != call.op || entry.label != call.layer.label || !(entry.geometry == call.geometry)) {
    entry.op = call.op;
    entry.label = call.layer.label;
    entry.geometry = call.geometry;
    entry.count = 0;
  }
  entry.newest = (entry.newest + 1) % kDepth;
  entry.forwards[entry.newest] = {call.call_id, call.layer};
  entry.count = entry.count < kDepth ? entry.count + 1 : kDepth;
}

std::optional<OpenForwards::Forward> OpenForwards::take(const records::AttentionCall& call) noexcept {
  Entry& entry = entry_of(call.op, call.layer.label, call.geometry);
  for (int tries = 0; tries < kLockTries; ++tries) {
    const TryLock lock(entry.busy);
    if (!lock.owned()) {
      continue;
    }
    if (entry.count == 0 || entry.op != call.op || entry.label != call.layer.label ||
        !(entry.geometry == call.geometry)) {
      return std::nullopt;
    }
    const Forward newest = entry.forwards[entry.newest];
    entry.newest = (entry.newest + kDepth - 1) % kDepth;
    --entry.count;
    return newest;
  }
  return std::nullopt;
}

void OpenForwards::close(const records::OpInfo* op, const records::LayerRef& layer, const records::Geometry& geometry,
                         std::uint64_t call_id) noexcept {
  Entry& entry = entry_of(op, layer.label, geometry);
  const TryLock lock(entry.busy);
  if (!lock.owned() || entry.op != op || entry.label != layer.label || !(entry.geometry == geometry)) {
    return;
  }
  for (std::size_t back = 0; back < entry.count; ++back) {
    const std::size_t at = (entry.newest + kDepth - back) % kDepth;
    if (entry.forwards[at].call_id != call_id) {
      continue;
    }
    // Usually the newest: a backward pass closes calls in reverse. Later ones move down by one.
    for (std::size_t later = back; later > 0; --later) {
      entry.forwards[(entry.newest + kDepth - later) % kDepth] =
          entry.forwards[(entry.newest + kDepth - later + 1) % kDepth];
    }
    entry.newest = (entry.newest + kDepth - 1) % kDepth;
    --entry.count;
    return;
  }
}

}  // namespace headscope::capture
