#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "records/attention_call.h"

namespace headscope::capture {

/// What an op's allocation may be for, in the order of trust where two have one size.
enum class AllocationKind : std::uint8_t { kScores, kKeyValueCopy, kMask, kUpcast };
inline constexpr std::size_t kAllocationKinds = 4;

/// Sizes by which an op's allocations are told apart.
class ExpectedAllocations {
 public:
  /// Allocations on other devices are none of the call's; std::nullopt: all count.
  std::optional<records::DeviceType> device;

  /// A size expected for two kinds stays with the first.
  void expect(AllocationKind kind, std::int64_t bytes) noexcept {
    if (bytes > 0 && count_ < sizes_.size() && !kind_of(bytes)) {
      sizes_[count_++] = {bytes, kind};
    }
  }
  [[nodiscard]] std::optional<AllocationKind> kind_of(std::int64_t bytes) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (sizes_[i].bytes == bytes) {
        return sizes_[i].kind;
      }
    }
    return std::nullopt;
  }

 private:
  struct Size {
    std::int64_t bytes = 0;
    AllocationKind kind = AllocationKind::kScores;
  };
  std::array<Size, 12> sizes_{};
  std::size_t count_ = 0;
};

}  // namespace headscope::capture
