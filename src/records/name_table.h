#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headscope::records {

/// Each text once, under a small number. Number 0 is the empty text. Views stay valid as long as the table, also
/// when it is moved.
class NameTable {
 public:
  NameTable() { intern({}); }
  NameTable(NameTable&&) noexcept = default;
  NameTable& operator=(NameTable&&) noexcept = default;
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;
  ~NameTable() = default;

  std::uint32_t intern(std::string_view text) {
    if (const auto known = ids_.find(text); known != ids_.end()) {
      return known->second;
    }
    const auto id = static_cast<std::uint32_t>(texts_.size());
    ids_.emplace(texts_.emplace_back(text), id);
    return id;
  }

  [[nodiscard]] std::string_view operator[](std::uint32_t id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque, so that no text ever moves
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

}  // namespace headscope::records
