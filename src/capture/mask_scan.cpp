#include "capture/mask_scan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace headscope::capture {
namespace {

/// Half floats compare by their bits: among negative values a larger pattern is a lower number.
constexpr std::uint16_t kHalfThreshold = 0xF7FF;      // −65504 ÷ 2
constexpr std::uint16_t kHalfInfinity = 0xFC00;       // −inf; NaN patterns lie above
constexpr std::uint16_t kBFloat16Threshold = 0xFEFF;  // lowest ÷ 2
constexpr std::uint16_t kBFloat16Infinity = 0xFF80;

struct AdmitsBool {
  using Element = std::uint8_t;
  bool invert;
  bool operator()(Element element) const noexcept { return (element != 0) != invert; }
};
template <class Float>
struct AdmitsFloat {
  using Element = Float;
  bool operator()(Element element) const noexcept { return !(element <= std::numeric_limits<Float>::lowest() / 2); }
};
struct AdmitsBits {
  using Element = std::uint16_t;
  std::uint16_t threshold;
  std::uint16_t infinity;
  bool operator()(Element bits) const noexcept { return bits < threshold || bits > infinity; }
};

struct Row {
  std::int64_t admitted = 0;
  std::int64_t last = -1;
};

template <class Admits>
Row scan_row(const typename Admits::Element* row, std::int64_t columns, std::int64_t stride, Admits admits) noexcept {
  Row result;
  if (stride == 1) {
    for (std::int64_t j = 0; j < columns; ++j) {
      result.admitted += admits(row[j]) ? 1 : 0;
    }
  } else {
    for (std::int64_t j = 0; j < columns; ++j) {
      result.admitted += admits(row[j * stride]) ? 1 : 0;
    }
  }
  result.last = columns - 1;
  while (result.last >= 0 && !admits(row[result.last * stride])) {
    --result.last;
  }
  return result;
}

/// Sizes and strides as [batch, heads, rows, columns]; an axis that is broadcast has size 1.
struct Axes {
  std::array<std::int64_t, 4> sizes{1, 1, 1, 1};
  std::array<std::int64_t, 4> strides{};
};

std::optional<Axes> align(const TensorView& view, const records::Geometry& geometry) noexcept {
  if (view.dims < 1 || view.dims > 4) {
    return std::nullopt;
  }
  Axes axes;
  const auto shift = static_cast<std::size_t>(4 - view.dims);
  for (int axis = 0; axis < view.dims; ++axis) {
    const auto from = static_cast<std::size_t>(axis);
    const std::size_t to = from + shift;
    const bool broadcast = view.sizes[from] == 1 || view.strides[from] == 0;
    axes.sizes[to] = broadcast ? 1 : view.sizes[from];
    axes.strides[to] = broadcast ? 0 : view.strides[from];
  }
  const std::array<std::int64_t, 4> full{geometry.batch, geometry.heads, geometry.q_len, geometry.kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const bool sinks = axis == 3 && axes.sizes[axis] == full[axis] + 1;
    if (axes.sizes[axis] != 1 && axes.sizes[axis] != full[axis] && !sinks) {
      return std::nullopt;
    }
  }
  return axes;
}

template <class Admits>
records::MaskCount scan(const void* data, const Axes& axes, const records::Geometry& geometry, Admits admits) {
  const auto* base = static_cast<const typename Admits::Element*>(data);
  const bool per_head = axes.sizes[1] > 1;
  const bool broadcast_rows = axes.sizes[2] == 1;
  const bool broadcast_columns = axes.sizes[3] == 1;
  const std::int64_t columns = broadcast_columns ? 1 : geometry.kv_len;
  const auto row_repeat = static_cast<std::uint64_t>(broadcast_rows ? geometry.q_len : 1);
  const auto batch_repeat = static_cast<std::uint64_t>(axes.sizes[0] == 1 ? geometry.batch : 1);
  const auto column_repeat = static_cast<std::uint64_t>(broadcast_columns ? geometry.kv_len : 1);

  records::MaskCount count;
  count.lower_triangle = geometry.q_len > 1 && geometry.kv_len > 0;
  bool sees_several = false;
  std::vector<std::uint64_t> heads(static_cast<std::size_t>(axes.sizes[1]), 0);
  for (std::int64_t b = 0; b < axes.sizes[0]; ++b) {
    for (std::int64_t h = 0; h < axes.sizes[1]; ++h) {
      for (std::int64_t i = 0; i < axes.sizes[2]; ++i) {
        const Row row = scan_row(base + b * axes.strides[0] + h * axes.strides[1] + i * axes.strides[2], columns,
                                 axes.strides[3], admits);
        const std::int64_t last = broadcast_columns && row.admitted > 0 ? geometry.kv_len - 1 : row.last;
        const std::uint64_t admitted = static_cast<std::uint64_t>(row.admitted) * column_repeat;
        heads[static_cast<std::size_t>(h)] += admitted * row_repeat * batch_repeat;
        count.used_keys = std::max(count.used_keys, last + 1);
        count.lower_triangle = count.lower_triangle && last <= i;
        sees_several = sees_several || (admitted > 1 && (i > 0 || broadcast_rows));
      }
    }
  }
  count.lower_triangle = count.lower_triangle && sees_several;
  if (per_head) {
    for (const std::uint64_t pairs : heads) {
      count.pairs += pairs;
    }
    count.pairs_per_head = std::move(heads);
  } else {
    count.pairs = heads[0] * static_cast<std::uint64_t>(geometry.heads);
  }
  return count;
}

}  // namespace

std::int64_t scanned_elements(const TensorView& view) noexcept {
  std::int64_t elements = 1;
  for (int axis = 0; axis < view.dims; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    elements *= view.strides[at] == 0 ? std::min<std::int64_t>(view.sizes[at], 1) : view.sizes[at];
  }
  return elements;
}

std::optional<records::MaskCount> scan_mask(const MaskData& mask, const records::Geometry& geometry) {
  const std::optional<Axes> axes = align(mask.view, geometry);
  if (!axes) {
    return std::nullopt;
  }
  switch (mask.type) {
    case MaskType::kBool:
      return scan(mask.data, *axes, geometry, AdmitsBool{mask.true_is_masked});
    case MaskType::kFloat32:
      return scan(mask.data, *axes, geometry, AdmitsFloat<float>{});
    case MaskType::kFloat64:
      return scan(mask.data, *axes, geometry, AdmitsFloat<double>{});
    case MaskType::kFloat16:
      return scan(mask.data, *axes, geometry, AdmitsBits{kHalfThreshold, kHalfInfinity});
    case MaskType::kBFloat16:
      return scan(mask.data, *axes, geometry, AdmitsBits{kBFloat16Threshold, kBFloat16Infinity});
  }
  return std::nullopt;
}

}  // namespace headscope::capture
