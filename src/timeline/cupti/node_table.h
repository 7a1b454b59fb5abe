#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/spin_flag.h"
#include "records/device_activity.h"

namespace headscope::timeline::cupti {

/// Where the nodes of CUDA graphs were captured. Outlives sessions: a graph is captured once and replayed for long.
/// Written in CUPTI's callbacks, so its memory comes from posix_memalign and no member throws.
class NodeTable {
 public:
  /// Nodes beyond are not learnt; 64 MiB.
  static constexpr std::size_t kMaxNodes = std::size_t{1} << 20;

  NodeTable() = default;
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;
  ~NodeTable();

  /// A node was created; it `is_work` of the device when its graph runs. Without an open op a node that is known stays
  /// what it was: instantiating a graph creates nodes too.
  void created(std::uint64_t node, const records::Capture& capture, bool is_work) noexcept;
  /// `node` is a copy of `original`.
  void cloned(std::uint64_t original, std::uint64_t node) noexcept;
  /// Not known: no `after`.
  [[nodiscard]] records::Capture capture_of(std::uint64_t node) const noexcept;
  /// Moves out the captures of work that were made since the last time. Throws std::bad_alloc.
  [[nodiscard]] std::vector<records::Capture> take_created();

  [[nodiscard]] std::size_t size() const noexcept;
  /// Nodes for which there was no room.
  [[nodiscard]] std::uint64_t lost() const noexcept;

 private:
  struct Entry {
    std::uint64_t node = 0;  ///< 0: free
    records::Capture capture;
    bool is_new_work = false;  ///< not taken by take_created
  };

  [[nodiscard]] Entry* place_of(std::uint64_t node) const noexcept;
  bool grow() noexcept;
  void put(const Entry& entry) noexcept;

  mutable base::SpinFlag lock_;
  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;  ///< a power of two
  std::size_t size_ = 0;
  std::size_t new_work_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace headscope::timeline::cupti
