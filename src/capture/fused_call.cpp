#include "capture/fused_call.h"

#include <algorithm>
#include <new>
#include <span>
#include <tuple>
#include <vector>

#include "capture/cache_use.h"
#include "capture/operand.h"

namespace headscope::capture {
namespace {

/// Positions of the axes counted from the last.
struct AxisOrder {
  int heads;
  int sequence;
};

AxisOrder order_of(Layout layout) noexcept {
  switch (layout) {
    case Layout::kBSHD:
    case Layout::kTHD:
      return {-2, -3};
    case Layout::kBHSD:
    case Layout::kHSD:
      break;
  }
  return {-3, -2};
}

std::int64_t leading(const TensorView& tensor) noexcept {
  std::int64_t product = 1;
  for (int axis = 0; axis < tensor.dims - 3; ++axis) {
    product *= tensor.sizes[static_cast<std::size_t>(axis)];
  }
  return product;
}

records::CacheUse cache_of(const FusedArguments& arguments, const records::Geometry& geometry,
                           int sequence_axis) noexcept {
  if (!arguments.paged) {
    return arguments.varlen ? records::CacheUse{} : use_of_view(arguments.k, sequence_axis, geometry);
  }
  const std::int64_t block_size = arguments.k.size(1);
  const auto width = static_cast<std::size_t>(block_size > 0 ? arguments.paged_width / block_size : 0);
  const std::span<const std::int64_t> lengths =
      arguments.lengths ? std::span(arguments.lengths->k) : std::span<const std::int64_t>();
  try {
    return use_of_blocks(arguments.pages, width, lengths, block_size, arguments.k.size(0));
  } catch (const std::bad_alloc&) {
    return {};
  }
}

/// [batch, sequence, dim] or [sequence, dim] in a layout that has heads: one head.
records::Geometry headless(const FusedArguments& arguments) noexcept {
  const auto& [q, k, v] = std::tie(arguments.q, arguments.k, arguments.v);
  return {q.dims == 3 ? q.size(0) : 1, 1, 1, q.size(-2), k.size(-2), q.size(-1), v.size(-1)};
}

}  // namespace

std::optional<records::Geometry> geometry_of(const FusedArguments& arguments, Layout layout) noexcept {
  const auto& [q, k, v] = std::tie(arguments.q, arguments.k, arguments.v);
  if (q.dims < 2 || k.dims < 2 || v.dims < 2) {
    return std::nullopt;
  }
  if (layout == Layout::kBHSD && q.dims <= 3 && k.dims == q.dims && v.dims == q.dims) {
    return headless(arguments);
  }
  if (q.dims < 3 || k.dims < 3 || v.dims < 3) {
    return std::nullopt;
  }
  const auto [heads, sequence] = order_of(layout);
  records::Geometry geometry{leading(q),       q.size(heads), k.size(heads), q.size(sequence),
                             k.size(sequence), q.size(-1),    v.size(-1)};
  if (layout == Layout::kHSD) {
    geometry.heads = q.size(-3);
    geometry.kv_heads = k.size(-3);
  }
  if (arguments.paged) {
    geometry.kv_heads = k.size(-2);
    geometry.kv_len = arguments.paged_width;
  }
  if (arguments.lengths) {
    const auto longest = [](const std::vector<std::int64_t>& lengths) {
      return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    };
    geometry.batch = static_cast<std::int64_t>(arguments.lengths->q.size());
    geometry.q_len = longest(arguments.lengths->q);
    geometry.kv_len = longest(arguments.lengths->k);
  } else if (arguments.varlen) {
    geometry.batch = std::max<std::int64_t>(arguments.sequences, 1);
  }
  return geometry;
}

std::optional<records::AttentionCall> make_fused_call(const OpEntry& entry, const FusedArguments& arguments) noexcept {
  const std::optional<records::Geometry> geometry = geometry_of(arguments, entry.layout);
  if (!geometry) {
    return std::nullopt;
  }
  records::AttentionCall call;
  call.op = &entry.info;
  call.direction = entry.role == OpRole::kFusedBackward ? Direction::kBackward : Direction::kForward;
  call.device = arguments.q.device;
  call.dtype = arguments.q.dtype;
  call.geometry = *geometry;
  call.has_dropout = arguments.has_dropout;
  call.window = arguments.window;
  call.window.lower_right = entry.causal_lower_right;
  if (arguments.mask_type == 1) {
    call.causal = records::Causal::kUpperLeft;
  } else if (arguments.mask_type == 2) {
    call.causal = records::Causal::kLowerRight;
  } else if (arguments.causal) {
    call.causal = entry.causal_lower_right ? records::Causal::kLowerRight : records::Causal::kUpperLeft;
  }
  call.lengths = arguments.lengths;
  call.lengths_unknown = entry.hidden_cache || (!arguments.lengths && (arguments.varlen || arguments.paged));
  call.kv_packed = arguments.varlen && !arguments.paged;
  call.cache = cache_of(arguments, *geometry, order_of(entry.layout).sequence);
  call.q = operand_of(arguments.q);
  call.k = operand_of(arguments.k);
  call.v = operand_of(arguments.v);
  call.kv_overlap_bytes = overlap_bytes(arguments.k, arguments.v);
  call.q_overlap_bytes = query_overlap_bytes(arguments.q, arguments.k, arguments.v);
  return call;
}

}  // namespace headscope::capture
