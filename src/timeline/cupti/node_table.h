#pragma once

#include <cstddef>
#include <cstdint>

#include "base/spin_flag.h"

namespace headscope::timeline::cupti {

/// Which op captured a node of a CUDA graph. Outlives sessions: a graph is captured once and replayed for long.
/// Written in CUPTI's callbacks, so its memory comes from posix_memalign and no member throws.
class NodeTable {
 public:
  /// Nodes beyond are not learnt; 32 MiB.
  static constexpr std::size_t kMaxNodes = std::size_t{1} << 20;

  NodeTable() = default;
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;
  ~NodeTable();

  /// A node was created while `op` was open. Ids of 0 are ignored: instantiating a graph creates nodes too.
  void created(std::uint64_t node, std::uint64_t op) noexcept;
  /// `node` is a copy of `original`, and has its op.
  void cloned(std::uint64_t original, std::uint64_t node) noexcept;
  /// 0: not known.
  [[nodiscard]] std::uint64_t op_of(std::uint64_t node) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept;
  /// Nodes for which there was no room.
  [[nodiscard]] std::uint64_t lost() const noexcept;

 private:
  struct Entry {
    std::uint64_t node;  ///< 0: free
    std::uint64_t op;
  };

  [[nodiscard]] Entry* place_of(std::uint64_t node) const noexcept;
  bool grow() noexcept;
  void put(std::uint64_t node, std::uint64_t op) noexcept;

  mutable base::SpinFlag lock_;
  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;  ///< a power of two
  std::size_t size_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace headscope::timeline::cupti
