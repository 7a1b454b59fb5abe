#include "timeline/cupti/node_table.h"

#include <cstdlib>
#include <memory>
#include <mutex>

namespace headscope::timeline::cupti {
namespace {

constexpr std::size_t kFirstCapacity = 1024;

std::size_t hash_of(std::uint64_t node) {
  node *= 0x9E3779B97F4A7C15ULL;  // 2⁶⁴ / golden ratio
  return static_cast<std::size_t>(node ^ (node >> 32));
}

}  // namespace

NodeTable::~NodeTable() { std::free(entries_); }

NodeTable::Entry* NodeTable::place_of(std::uint64_t node) const noexcept {
  std::size_t at = hash_of(node) & (capacity_ - 1);
  while (entries_[at].node != 0 && entries_[at].node != node) {
    at = (at + 1) & (capacity_ - 1);
  }
  return &entries_[at];
}

bool NodeTable::grow() noexcept {
  const std::size_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
  void* memory = nullptr;
  if (capacity > 2 * kMaxNodes || posix_memalign(&memory, alignof(Entry), capacity * sizeof(Entry)) != 0) {
    return false;
  }
  Entry* const old = entries_;
  const std::size_t old_capacity = capacity_;
  entries_ = static_cast<Entry*>(memory);
  std::uninitialized_fill_n(entries_, capacity, Entry{});
  capacity_ = capacity;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].node != 0) {
      *place_of(old[i].node) = old[i];
    }
  }
  std::free(old);
  return true;
}

void NodeTable::put(const Entry& entry) noexcept {
  // At most half full, so that a search ends soon.
  if (2 * size_ >= capacity_ && !grow()) {
    if (capacity_ == 0 || place_of(entry.node)->node == 0) {
      ++lost_;
      return;
    }
  }
  Entry* const place = place_of(entry.node);
  size_ += place->node == 0 ? 1 : 0;
  new_work_ += entry.is_new_work ? 1 : 0;
  new_work_ -= place->node != 0 && place->is_new_work ? 1 : 0;
  *place = entry;
}

void NodeTable::created(std::uint64_t node, const records::Capture& capture, bool is_work) noexcept {
  if (node == 0) {
    return;
  }
  const std::lock_guard lock(lock_);
  if (capture.op == 0 && capacity_ != 0 && place_of(node)->node != 0) {
    return;
  }
  put({node, capture, is_work});
}

void NodeTable::cloned(std::uint64_t original, std::uint64_t node) noexcept {
  if (node == 0 || original == 0) {
    return;
  }
  const std::lock_guard lock(lock_);
  if (capacity_ != 0 && place_of(original)->node != 0) {
    put({node, place_of(original)->capture, false});
  }
}

records::Capture NodeTable::capture_of(std::uint64_t node) const noexcept {
  if (node == 0) {
    return {};
  }
  const std::lock_guard lock(lock_);
  return capacity_ == 0 || place_of(node)->node == 0 ? records::Capture{} : place_of(node)->capture;
}

std::vector<records::Capture> NodeTable::take_created() {
  std::vector<records::Capture> created;
  const std::lock_guard lock(lock_);
  if (new_work_ == 0) {
    return created;
  }
  created.reserve(new_work_);
  for (std::size_t i = 0; i < capacity_; ++i) {
    if (entries_[i].node != 0 && entries_[i].is_new_work) {
      created.push_back(entries_[i].capture);
      entries_[i].is_new_work = false;
    }
  }
  new_work_ = 0;
  return created;
}

std::size_t NodeTable::size() const noexcept {
  const std::lock_guard lock(lock_);
  return size_;
}

std::uint64_t NodeTable::lost() const noexcept {
  const std::lock_guard lock(lock_);
  return lost_;
}

}  // namespace headscope::timeline::cupti
