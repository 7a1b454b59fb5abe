#pragma once

#include <cstdint>
#include <optional>

#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// Sizes of a batched product out[batch, rows, columns] = a[batch, rows, inner] @ b[batch, inner, columns].
struct ProductShape {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;

  /// Multiply-add counts 2.
  [[nodiscard]] std::uint64_t flops() const noexcept {
    return 2 * static_cast<std::uint64_t>(batch * rows) * static_cast<std::uint64_t>(inner * columns);
  }
  [[nodiscard]] std::int64_t out_elements() const noexcept { return batch * rows * columns; }
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

/// std::nullopt when the three are no batched product, or an empty one.
std::optional<ProductShape> product_shape(const TensorView& a, const TensorView& b, const TensorView& out) noexcept;

/// How a softmax's tensor lays out the scores of a product.
struct ScoreLayout {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t q_len = 0;
  /// Query heads that one batch entry of the product holds in its rows.
  std::int64_t groups = 1;

  friend bool operator==(const ScoreLayout&, const ScoreLayout&) = default;
};

/// The layout of `scores`, softmaxed over its last axis, if it can hold the output of `product`: the same
/// number of rows, as many columns or one more (a sink). `same_storage`: `scores` is known to be a view of
/// the product's output, whose strides then tell the axis of the queries. Otherwise at least 3 axes are
/// asked, of which the queries are the last but one, or the one after the batch.
///
/// Heads: with 4 axes or more the first is the batch and the others are heads (also where windows or rows
/// of a picture stand there); with fewer, batch 1 and the product's batch axis.
std::optional<ScoreLayout> score_layout(const ProductShape& product, const TensorView& scores,
                                        bool same_storage) noexcept;

/// Whether a product of this shape can be probabilities @ values for those scores.
bool takes_probabilities(const ProductShape& values, const ProductShape& scores, const ScoreLayout& layout) noexcept;

/// Whether `mask` broadcasts to `scores` and has a column for each key.
bool broadcasts_over_keys(const TensorView& mask, const TensorView& scores) noexcept;

/// A 3-D operand with its last two axes swapped.
TensorView transposed(const TensorView& operand) noexcept;

/// Whether a 3-D operand is the transposed view of a dense one.
bool is_transposed(const TensorView& operand) noexcept;

}  // namespace headscope::capture
