#include "timeline/cupti/node_table.h"

#include <cstdlib>
#include <cstring>
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
  std::memset(memory, 0, capacity * sizeof(Entry));
  Entry* const old = entries_;
  const std::size_t old_capacity = capacity_;
  entries_ = static_cast<Entry*>(memory);
  capacity_ = capacity;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].node != 0) {
      *place_of(old[i].node) = old[i];
    }
  }
  std::free(old);
  return true;
}

void NodeTable::put(std::uint64_t node, std::uint64_t op) noexcept {
  // At most half full, so that a search ends soon.
  if (2 * size_ >= capacity_ && !grow()) {
    if (capacity_ == 0 || place_of(node)->node == 0) {
      ++lost_;
      return;
    }
  }
  Entry* const entry = place_of(node);
  size_ += entry->node == 0 ? 1 : 0;
  *entry = {node, op};
}

void NodeTable::created(std::uint64_t node, std::uint64_t op) noexcept {
  if (node == 0 || op == 0) {
    return;
  }
  const std::lock_guard lock(lock_);
  put(node, op);
}

void NodeTable::cloned(std::uint64_t original, std::uint64_t node) noexcept {
  if (node == 0 || original == 0) {
    return;
  }
  const std::lock_guard lock(lock_);
  const std::uint64_t op = capacity_ == 0 ? 0 : place_of(original)->op;
  if (op != 0) {
    put(node, op);
  }
}

std::uint64_t NodeTable::op_of(std::uint64_t node) const noexcept {
  if (node == 0) {
    return 0;
  }
  const std::lock_guard lock(lock_);
  return capacity_ == 0 ? 0 : place_of(node)->op;
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
