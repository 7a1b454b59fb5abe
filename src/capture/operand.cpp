#include "capture/operand.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>

namespace headscope::capture {

namespace {

struct Axis {
  std::int64_t k_size = 1;
  std::int64_t v_size = 1;
  std::int64_t stride = 0;
};
using Axes = std::array<Axis, TensorView::kMaxDims>;

/// Extent of an axis in addresses: a broadcast axis touches each address once.
std::int64_t touched_size(const TensorView& tensor, int axis) noexcept {
  const auto at = static_cast<std::size_t>(axis);
  return tensor.sizes[at] > 1 && tensor.strides[at] == 0 ? 1 : tensor.sizes[at];
}

std::int64_t touched(const TensorView& tensor) noexcept {
  std::int64_t elements = 1;
  for (int axis = 0; axis < tensor.dims; ++axis) {
    elements *= touched_size(tensor, axis);
  }
  return elements;
}

/// One past the last address of `tensor`, in elements.
std::int64_t end_of(const TensorView& tensor) noexcept {
  std::int64_t last = tensor.offset;
  for (int axis = 0; axis < tensor.dims; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    last += (tensor.sizes[at] - 1) * tensor.strides[at];
  }
  return last + 1;
}

/// The common axes in order of falling stride; false when some axis has another stride in `v`.
bool common_axes(const TensorView& k, const TensorView& v, Axes& axes) noexcept {
  if (k.dims != v.dims) {
    return false;
  }
  for (int axis = 0; axis < k.dims; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t k_size = touched_size(k, axis);
    const std::int64_t v_size = touched_size(v, axis);
    if (k_size > 1 && v_size > 1 && k.strides[at] != v.strides[at]) {
      return false;
    }
    axes[at] = {k_size, v_size, k_size > 1 ? k.strides[at] : v_size > 1 ? v.strides[at] : 0};
  }
  // Unused axes, with stride 0, come last. An insertion sort: std::stable_sort allocates, which a hook must not, and
  // gcc 12 takes std::sort of so few elements for an overrun.
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    std::rotate(std::ranges::upper_bound(axes.begin(), axis, axis->stride, std::ranges::greater{}, &Axis::stride), axis,
                axis + 1);
  }
  return true;
}

/// Pairs of elements, one of each tensor, at one address when V starts `shift` elements after K. An axis
/// contributes a whole number of strides to `shift`: the quotient or one more, since the inner axes
/// reach less than one stride in either direction.
std::int64_t coinciding(const Axes& axes, std::size_t axis, std::size_t count, std::int64_t shift) noexcept {
  while (axis < count && axes[axis].stride == 0) {
    ++axis;
  }
  if (axis == count) {
    return shift == 0 ? 1 : 0;
  }
  const Axis& a = axes[axis];
  std::int64_t quotient = shift / a.stride;
  quotient -= shift % a.stride < 0 ? 1 : 0;
  std::int64_t pairs = 0;
  for (std::int64_t steps = quotient; steps <= quotient + 1; ++steps) {
    const std::int64_t shared = std::min(a.k_size, steps + a.v_size) - std::max<std::int64_t>(0, steps);
    if (shared > 0) {
      pairs += shared * coinciding(axes, axis + 1, count, shift - steps * a.stride);
    }
  }
  return pairs;
}

}  // namespace

records::Operand operand_of(const TensorView& tensor) noexcept {
  if (tensor.dims < 0) {
    return {};
  }
  return {static_cast<std::uint64_t>(touched(tensor)), tensor.element_size};
}

std::uint64_t overlap_bytes(const TensorView& k, const TensorView& v) noexcept {
  if (k.storage == 0 || k.storage != v.storage || k.dims < 0 || v.dims < 0) {
    return 0;
  }
  const std::int64_t smaller = std::min(touched(k), touched(v));
  if (smaller == 0) {
    return 0;
  }
  if (k.offset == v.offset && k.dims == v.dims && k.sizes == v.sizes && k.strides == v.strides) {
    return static_cast<std::uint64_t>(smaller) * std::min(k.element_size, v.element_size);
  }
  // The only element size that makes offsets comparable is a common one.
  const std::int64_t from = std::max(k.offset, v.offset);
  const std::int64_t to = std::min(end_of(k), end_of(v));
  if (to <= from) {
    return 0;
  }
  Axes axes{};
  const std::int64_t shared =
      common_axes(k, v, axes) ? coinciding(axes, 0, static_cast<std::size_t>(k.dims), v.offset - k.offset) : to - from;
  return static_cast<std::uint64_t>(std::min(shared, smaller)) * std::min(k.element_size, v.element_size);
}

std::uint64_t query_overlap_bytes(const TensorView& q, const TensorView& k, const TensorView& v) noexcept {
  if (q.storage != k.storage && q.storage != v.storage) {
    return 0;
  }
  const std::uint64_t with_k = overlap_bytes(q, k);
  const std::uint64_t with_v = overlap_bytes(q, v);
  return overlap_bytes(k, v) == 0 ? with_k + with_v : std::max(with_k, with_v);
}

}  // namespace headscope::capture
