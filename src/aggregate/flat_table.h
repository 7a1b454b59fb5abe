#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace headscope::aggregate {

/// Entries by key, in order of first use. Open addressing with linear probing; entries are never removed and
/// keep their address. `hash_of(key)` is found by argument-dependent lookup.
template <class Key, class Entry>
class FlatTable {
 public:
  struct Slot {
    Key key;
    Entry entry;
  };

  [[nodiscard]] Entry* find(const Key& key) noexcept {
    if (index_.empty()) {
      return nullptr;
    }
    const std::uint32_t at = index_[probe(key)];
    return at == kFree ? nullptr : &slots_[at]->entry;
  }

  /// The entry of a key that find() does not know.
  Entry& insert(const Key& key, Entry entry) {
    if ((slots_.size() + 1) * 2 > index_.size()) {
      grow();
    }
    slots_.push_back(std::make_unique<Slot>(Slot{key, std::move(entry)}));
    index_[probe(key)] = static_cast<std::uint32_t>(slots_.size() - 1);
    return slots_.back()->entry;
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] const std::vector<std::unique_ptr<Slot>>& slots() const noexcept { return slots_; }

 private:
  static constexpr std::uint32_t kFree = std::numeric_limits<std::uint32_t>::max();

  // Where the key is, or the free place where it belongs.
  [[nodiscard]] std::size_t probe(const Key& key) const noexcept {
    const std::size_t mask = index_.size() - 1;
    std::size_t place = hash_of(key) & mask;
    while (index_[place] != kFree && !(slots_[index_[place]]->key == key)) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void grow() {
    std::vector<std::uint32_t> larger(index_.empty() ? 64 : index_.size() * 2, kFree);
    slots_.reserve(larger.size() / 2);
    index_.swap(larger);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      index_[probe(slots_[i]->key)] = static_cast<std::uint32_t>(i);
    }
  }

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::uint32_t> index_;
};

}  // namespace headscope::aggregate
