#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "headscope/kv_cache.h"
#include "kv_cache/growth.h"

namespace headscope::kv_cache {

/// A cache that profilers show.
class Entry {
 public:
  using Read = std::function<std::vector<KvCacheUse>()>;

  /// `read`: how full the cache is; empty for one whose figures are set(). `profiler`: the only one that shows it; 0:
  /// all do.
  Entry(std::string name, Read read, std::uint64_t profiler);

  void set(std::vector<KvCacheUse> uses);
  /// Adds a point to the growth of a cache that is read.
  void sample();
  /// The cache is gone; keeps the last figures.
  void close();

  /// Alive at or after `since_ns` on the monotonic clock.
  [[nodiscard]] bool seen_since(std::int64_t since_ns) const;
  [[nodiscard]] bool is_for(std::uint64_t profiler) const noexcept { return profiler_ == 0 || profiler_ == profiler; }
  [[nodiscard]] bool closed() const;
  void append_rows(std::vector<KvCacheRow>& rows) const;

 private:
  void keep(std::vector<KvCacheUse> uses);

  mutable std::mutex mutex_;
  std::string name_;
  Read read_;
  std::uint64_t profiler_;
  std::vector<KvCacheUse> uses_;
  Growth growth_;
  std::int64_t opened_ns_;
  std::int64_t closed_ns_ = 0;  // 0: open
};

/// The caches of the process. Order of locks: registry, entry, the cache's own.
class Registry {
 public:
  /// Closed caches that are remembered.
  static constexpr std::size_t kMaxClosed = 64;

  std::shared_ptr<Entry> open(std::string name, Entry::Read read = {}, std::uint64_t profiler = 0);
  void sample();
  /// What `profiler` shows of the caches that lived at or after `since_ns`, oldest first.
  [[nodiscard]] std::vector<KvCacheRow> rows(std::int64_t since_ns, std::uint64_t profiler) const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Entry>> entries_;
};

/// One a process, never destroyed.
Registry& the_registry();

}  // namespace headscope::kv_cache
