#include "capture/eager_shapes.h"

#include <cstddef>
#include <utility>

namespace headscope::capture {

namespace {

std::size_t at(int axis) noexcept { return static_cast<std::size_t>(axis); }

/// Rows of one batch entry of the product may hold a group of query heads: rows = groups · q_len.
std::optional<std::int64_t> groups_of(const ProductShape& product, const TensorView& scores, int q_axis) noexcept {
  const std::int64_t q_len = scores.sizes[at(q_axis)];
  if (q_len == product.rows) {
    return 1;
  }
  if (product.rows % q_len != 0) {
    return std::nullopt;
  }
  const std::int64_t groups = product.rows / q_len;
  for (int axis = 0; axis < scores.dims - 1; ++axis) {
    if (axis != q_axis && scores.sizes[at(axis)] == groups) {
      return groups;
    }
  }
  return std::nullopt;
}

/// The axis along which a view of the product's dense output steps by one row.
int axis_by_stride(const ProductShape& product, const TensorView& scores) noexcept {
  for (int axis = scores.dims - 2; axis >= 0; --axis) {
    if (scores.sizes[at(axis)] > 1 && scores.strides[at(axis)] == product.columns) {
      return axis;
    }
  }
  return scores.dims - 2;
}

ScoreLayout layout_with(const ProductShape& product, const TensorView& scores, int q_axis,
                        std::int64_t groups) noexcept {
  ScoreLayout layout;
  layout.q_len = scores.sizes[at(q_axis)];
  layout.groups = groups;
  const bool batch_first = scores.dims >= 4 && q_axis != 0;
  layout.batch = batch_first ? scores.sizes[0] : 1;
  layout.heads = product.batch * groups / layout.batch;
  layout.kv_heads = groups > 1 && product.batch % layout.batch == 0 ? product.batch / layout.batch : layout.heads;
  return layout;
}

}  // namespace

std::optional<ProductShape> product_shape(const TensorView& a, const TensorView& b, const TensorView& out) noexcept {
  if (a.dims != 3 || b.dims != 3 || out.dims != 3) {
    return std::nullopt;
  }
  const ProductShape shape{a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[2]};
  const bool agrees = b.sizes[0] == shape.batch && b.sizes[1] == shape.inner && out.sizes[0] == shape.batch &&
                      out.sizes[1] == shape.rows && out.sizes[2] == shape.columns;
  if (!agrees || shape.out_elements() <= 0 || shape.inner <= 0) {
    return std::nullopt;
  }
  return shape;
}

std::optional<ScoreLayout> score_layout(const ProductShape& product, const TensorView& scores,
                                        bool same_storage) noexcept {
  if (scores.dims < (same_storage ? 2 : 3)) {
    return std::nullopt;
  }
  const std::int64_t columns = scores.size(-1);
  const bool sink = columns == product.columns + 1;
  if (columns != product.columns && !sink) {
    return std::nullopt;
  }
  if (scores.elements() != product.batch * product.rows * columns) {
    return std::nullopt;
  }
  if (scores.dims == 2) {
    return ScoreLayout{1, product.batch, product.batch, product.rows, 1};
  }
  const int last = scores.dims - 2;
  const int candidates[] = {same_storage && !sink ? axis_by_stride(product, scores) : last, last, 1};
  for (const int q_axis : candidates) {
    if (const auto groups = groups_of(product, scores, q_axis)) {
      return layout_with(product, scores, q_axis, *groups);
    }
  }
  return std::nullopt;
}

bool takes_probabilities(const ProductShape& values, const ProductShape& scores, const ScoreLayout& layout) noexcept {
  if (values.inner != scores.columns) {
    return false;
  }
  return (values.batch == scores.batch && values.rows == scores.rows) ||
         (values.batch == scores.batch * layout.groups && values.rows == layout.q_len);
}

bool broadcasts_over_keys(const TensorView& mask, const TensorView& scores) noexcept {
  if (mask.dims < 1 || mask.dims > scores.dims || mask.size(-1) != scores.size(-1)) {
    return false;
  }
  for (int axis = 2; axis <= mask.dims; ++axis) {
    if (mask.size(-axis) != 1 && mask.size(-axis) != scores.size(-axis)) {
      return false;
    }
  }
  return true;
}

TensorView transposed(const TensorView& operand) noexcept {
  TensorView swapped = operand;
  std::swap(swapped.sizes[1], swapped.sizes[2]);
  std::swap(swapped.strides[1], swapped.strides[2]);
  return swapped;
}

bool is_transposed(const TensorView& operand) noexcept {
  return operand.strides[1] == 1 && operand.strides[2] != 1 && operand.sizes[2] > 1;
}

}  // namespace headscope::capture
