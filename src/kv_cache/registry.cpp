#include "kv_cache/registry.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "kv_cache/describe.h"

namespace headscope::kv_cache {

Entry::Entry(std::string name, Read read, std::uint64_t profiler)
    : name_(std::move(name)), read_(std::move(read)), profiler_(profiler), opened_ns_(base::monotonic_ns()) {}

void Entry::set(std::vector<KvCacheUse> uses) {
  for (const KvCacheUse& use : uses) {
    check(use, name_);
  }
  const std::lock_guard lock(mutex_);
  keep(std::move(uses));
}

void Entry::sample() {
  const std::lock_guard lock(mutex_);
  if (read_) {
    keep(read_());
  }
}

void Entry::close() {
  const std::lock_guard lock(mutex_);
  if (read_) {
    keep(read_());
    read_ = nullptr;
  }
  closed_ns_ = base::monotonic_ns();
}

void Entry::keep(std::vector<KvCacheUse> uses) {
  uses_ = std::move(uses);
  if (!uses_.empty() && uses_.front().used_tokens) {
    growth_.add({.at = Nanoseconds(base::monotonic_ns() - opened_ns_),
                 .used_tokens = *uses_.front().used_tokens,
                 .reserved_tokens = uses_.front().reserved_tokens});
  }
}

bool Entry::seen_since(std::int64_t since_ns) const {
  const std::lock_guard lock(mutex_);
  return closed_ns_ == 0 || closed_ns_ >= since_ns;
}

bool Entry::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_ns_ != 0;
}

void Entry::append_rows(std::vector<KvCacheRow>& rows) const {
  const std::lock_guard lock(mutex_);
  bool whole = true;
  for (const KvCacheUse& use : read_ ? read_() : uses_) {
    KvCacheRow& row = rows.emplace_back(describe(use, name_));
    row.freed = closed_ns_ != 0;
    if (std::exchange(whole, false)) {
      row.growth = growth_.points();
    }
  }
}

std::shared_ptr<Entry> Registry::open(std::string name, Entry::Read read, std::uint64_t profiler) {
  auto entry = std::make_shared<Entry>(std::move(name), std::move(read), profiler);
  const std::lock_guard lock(mutex_);
  const auto closed = std::ranges::count_if(entries_, [](const auto& known) { return known->closed(); });
  if (static_cast<std::size_t>(closed) > kMaxClosed) {
    entries_.erase(std::ranges::find_if(entries_, [](const auto& known) { return known->closed(); }));
  }
  entries_.push_back(entry);
  return entry;
}

void Registry::sample() {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    entry->sample();
  }
}

std::vector<KvCacheRow> Registry::rows(std::int64_t since_ns, std::uint64_t profiler) const {
  std::vector<KvCacheRow> rows;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->is_for(profiler) && entry->seen_since(since_ns)) {
      entry->append_rows(rows);
    }
  }
  return rows;
}

Registry& the_registry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace headscope::kv_cache
