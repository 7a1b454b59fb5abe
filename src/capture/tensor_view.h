#pragma once

#include <array>
#include <cstdint>

#include "records/attention_call.h"

namespace headscope::capture {

/// Address that stands for a tensor's storage while the tensor lives; 0: none. A freed storage's
/// address may come back for another tensor, so identity alone proves nothing: shapes must agree too.
using StorageId = std::uintptr_t;

/// A tensor's shape and place, without the tensor.
struct TensorView {
  static constexpr int kMaxDims = 6;

  StorageId storage = 0;
  std::int64_t offset = 0;  ///< of the first element, in elements
  int dims = 0;             ///< −1: more than kMaxDims, sizes not set
  std::array<std::int64_t, kMaxDims> sizes{};
  std::array<std::int64_t, kMaxDims> strides{};
  std::uint32_t element_size = 0;
  records::DType dtype = records::DType::kOther;
  records::Device device;

  /// Size of an axis; negative axes count from the last.
  [[nodiscard]] std::int64_t size(int axis) const noexcept {
    return sizes[static_cast<std::size_t>(axis < 0 ? axis + dims : axis)];
  }
  [[nodiscard]] std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (int axis = 0; axis < dims; ++axis) {
      product *= sizes[static_cast<std::size_t>(axis)];
    }
    return product;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(elements()) * element_size; }
};

}  // namespace headscope::capture
