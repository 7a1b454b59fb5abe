#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "headscope/annotate.h"
#include "headscope/stats.h"

/// What the tests on real ops share.
namespace headscope::torch_tests {

/// 2 heads, 4 queries and keys, 8 numbers a head.
inline at::Tensor some_heads() { return at::ones({1, 2, 4, 8}); }

inline at::Tensor attend(const at::Tensor& x, bool causal = false) {
  return at::scaled_dot_product_attention(x, x, x, {}, 0.0, causal);
}

/// A call whose op raises: keys of another head dim.
inline void attend_wrongly() {
  at::scaled_dot_product_attention(some_heads(), at::ones({1, 2, 4, 7}), at::ones({1, 2, 4, 7}));
}

/// Makes an op of the tests, with arguments q, k and v, attention of variant "mine".
inline void register_mine(std::string op) {
  AttentionOpSpec spec;
  spec.op = std::move(op);
  spec.variant = "mine";
  spec.query = "q";
  spec.key = "k";
  spec.value = "v";
  register_attention_op(spec);
}

/// Nanoseconds; −1: unknown.
inline std::int64_t time_of(const Figures& figures) { return figures.time ? figures.time->total.count() : -1; }

inline std::uint64_t calls_of(const Stats& stats) { return stats.total.calls; }

/// The only row; an empty one when there is none or more than one.
inline AttentionRow only_row(const Stats& stats) {
  return stats.attention_breakdown.size() == 1 ? stats.attention_breakdown.front() : AttentionRow{};
}

/// The first row with that variant and direction.
inline std::optional<AttentionRow> row_of(const Stats& stats, std::string_view variant,
                                          Direction direction = Direction::kForward) {
  for (const AttentionRow& row : stats.attention_breakdown) {
    if (row.variant == variant && row.direction == direction) {
      return row;
    }
  }
  return std::nullopt;
}

}  // namespace headscope::torch_tests
