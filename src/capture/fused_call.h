#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/op_table.h"
#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// Arguments of a fused op (or of the composite), read from its schema.
struct FusedArguments {
  TensorView q, k, v;
  std::optional<TensorView> mask;
  bool causal = false;
  std::int64_t mask_type = 0;  ///< 1 causal upper-left, 2 causal lower-right
  records::Window window;
  bool has_dropout = false;
  /// Key and value are [pages, page size, kv heads, dim].
  bool paged = false;
  /// Pages a sequence may have × page size: the padded key length.
  std::int64_t paged_width = 0;
  /// The page table, where it lies on the host: `paged_width` ÷ page size pages a sequence.
  std::vector<std::int64_t> pages;
  /// Sequences share the query tensor; without `lengths` their number is `sequences`.
  bool varlen = false;
  std::int64_t sequences = 0;
  std::shared_ptr<const records::Lengths> lengths;
};

/// Geometry of q, k and v in `layout`; axes before the last three count as batch. std::nullopt for
/// shapes that are no attention in that layout.
std::optional<records::Geometry> geometry_of(const FusedArguments& arguments, Layout layout) noexcept;

/// A call with everything that follows from the arguments: op, device, dtype, geometry, causal, window,
/// lengths, operands q, k, v. Not filled: out, times, memory, mask, ids.
std::optional<records::AttentionCall> make_fused_call(const OpEntry& entry, const FusedArguments& arguments) noexcept;

}  // namespace headscope::capture
