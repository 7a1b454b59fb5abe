#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "capture/tensor_view.h"

namespace headscope::capture {

/// Remembers the last elementwise ops that wrote something else than scores, to find out, when a product
/// or a mask takes their output, which of them copied K or V or built the mask. By storage and element
/// count; each copy is handed out once.
class CopyRing {
 public:
  /// `counted`: bytes that this op copied; 0 for an op that only computes (scale, rotary).
  void put(const TensorView& in, const TensorView& out, std::uint64_t counted) noexcept;

  /// Upcast, expansion and scale of K: the longest way that the math path takes.
  static constexpr int kKeyValueSteps = 3;
  /// What a mask was before its last conversion is the program's own.
  static constexpr int kMaskSteps = 1;

  /// Bytes of the copies through which `operand` came about, at most `steps` ops back.
  std::uint64_t take(const TensorView& operand, int steps) noexcept;

  void clear() noexcept { outputs_ = {}; }

 private:
  static constexpr std::size_t kEntries = 32;

  struct Entry {
    StorageId in = 0;
    std::int64_t in_elements = 0;
    std::int64_t out_elements = 0;
    std::uint64_t counted = 0;
  };

  [[nodiscard]] Entry* find(StorageId out, std::int64_t elements) noexcept;

  /// Where the op of each entry wrote; apart, so that a search reads little.
  std::array<StorageId, kEntries> outputs_{};
  std::array<Entry, kEntries> entries_{};
  std::size_t next_ = 0;
};

}  // namespace headscope::capture
