#include "model/positions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/wide.h"
#include "model/facts.h"
#include "model/pairs.h"

namespace headscope::model {

using records::AttentionCall;
using records::Causal;

namespace {

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

/// First position of each bin. 2^(k/3) rounded up, without those that rounding makes equal.
std::array<std::int64_t, kPositionBins> make_firsts() noexcept {
  std::array<std::int64_t, kPositionBins> firsts{};
  std::size_t bins = 0;
  for (int third = 0; bins < kPositionBins; ++third) {
    // cbrt and ldexp are exact at whole octaves, where rounding up must not overshoot.
    const double root = third % 3 == 0 ? 1.0 : std::cbrt(third % 3 == 1 ? 2.0 : 4.0);
    const auto first = static_cast<std::int64_t>(std::ceil(std::ldexp(root, third / 3)));
    if (bins == 0 || first > firsts[bins - 1]) {
      firsts[bins++] = first;
    }
  }
  return firsts;
}

const std::array<std::int64_t, kPositionBins>& firsts() noexcept {
  static const std::array<std::int64_t, kPositionBins> value = make_firsts();
  return value;
}

/// Keys that a sequence's first query has before it.
std::int64_t keys_before(const AttentionCall& call, const Sequence& sequence) noexcept {
  const bool upper_left = call.causal == Causal::kUpperLeft;
  const std::int64_t used = used_keys(call, sequence);
  const records::MaskCount* mask = counted_mask(call);
  const bool triangle = mask != nullptr ? mask->lower_triangle : upper_left || is_lower_triangle(sequence);
  const bool continues = !triangle && used > sequence.q_len && (mask != nullptr || call.causal == Causal::kLowerRight);
  return continues ? used - sequence.q_len : 0;
}

/// Adds `copies` equal sequences.
void add_sequence(const AttentionCall& call, const Sequence& sequence, std::uint64_t copies, bool by_pairs,
                  QueryBlocks& blocks) noexcept {
  const std::int64_t queries = std::max<std::int64_t>(sequence.q_len, 0);
  const std::int64_t before = keys_before(call, sequence);
  std::int64_t from = 0;
  while (from < queries) {
    const std::size_t bin = position_bin(before + from + 1);
    const std::int64_t last = position_range(bin).last;
    const std::int64_t to = last == kNoEnd ? queries : std::min(queries, last - before);
    blocks.queries[bin] += copies * positive(to - from);
    blocks.weights[bin] += copies * (by_pairs ? admitted_pairs(sequence, from, to) : positive(to - from));
    from = to;
  }
}

}  // namespace

std::size_t position_bin(std::int64_t position) noexcept {
  const auto& all = firsts();
  const auto after = std::ranges::upper_bound(all, std::max<std::int64_t>(position, 1));
  return static_cast<std::size_t>(after - all.begin()) - 1;
}

PositionRange position_range(std::size_t bin) noexcept {
  const auto& all = firsts();
  return {all[bin], bin + 1 < kPositionBins ? all[bin + 1] - 1 : kNoEnd};
}

bool has_one_position(const records::CostedCall& costed) noexcept {
  return costed.phase == Phase::kDecode || (costed.phase == Phase::kCross && costed.call->geometry.q_len == 1);
}

std::int64_t mean_used_keys(const AttentionCall& call) noexcept {
  if (!has_known_lengths(call)) {
    return 0;
  }
  const std::size_t sequences = call.lengths ? sequence_count(call) : 1;
  std::int64_t sum = 0;
  std::int64_t with_queries = 0;
  for (std::size_t i = 0; i < sequences; ++i) {
    const Sequence sequence = sequence_at(call, i);
    if (sequence.q_len > 0) {
      sum += used_keys(call, sequence);
      ++with_queries;
    }
  }
  return with_queries == 0 ? 0 : (sum + with_queries / 2) / with_queries;
}

namespace {

/// The causal shape whose pairs are those of a counted mask, if there is one.
std::optional<Sequence> shape_of_mask(const AttentionCall& call, const records::MaskCount& mask) noexcept {
  Sequence shape = sequence_at(call, 0);
  shape.kv_len = std::min(mask.used_keys, shape.kv_len);
  shape.causal = mask.lower_triangle ? Causal::kUpperLeft : Causal::kLowerRight;
  shape.window = {};
  const base::Wide copies = base::Wide{positive(call.geometry.batch)} * positive(call.geometry.heads);
  return copies * admitted_pairs(shape) == mask.pairs ? std::optional(shape) : std::nullopt;
}

}  // namespace

QueryBlocks query_blocks(const AttentionCall& call) noexcept {
  QueryBlocks blocks;
  if (call.lengths) {
    blocks.exact = call.mask == records::MaskState::kNone;
    for (std::size_t i = 0; i < sequence_count(call); ++i) {
      add_sequence(call, sequence_at(call, i), 1, blocks.exact, blocks);
    }
    return blocks;
  }
  Sequence sequence = sequence_at(call, 0);
  if (const records::MaskCount* mask = counted_mask(call)) {
    const std::optional<Sequence> shape = shape_of_mask(call, *mask);
    blocks.exact = shape.has_value();
    sequence = shape.value_or(sequence);
  } else {
    blocks.exact = call.mask == records::MaskState::kNone;
  }
  add_sequence(call, sequence, sequence_count(call), blocks.exact, blocks);
  return blocks;
}

}  // namespace headscope::model
