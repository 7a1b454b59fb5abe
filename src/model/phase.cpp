#include "model/phase.h"

#include <cstddef>

#include "model/facts.h"
#include "model/pairs.h"

namespace headscope::model {

using records::AttentionCall;
using records::PhaseShares;

namespace {

Phase phase_of_sequence(const AttentionCall& call, const Sequence& sequence, std::int64_t decode_max_q) noexcept {
  const std::int64_t used = used_keys(call, sequence);
  bool lower_triangle = false;
  if (const records::MaskCount* mask = counted_mask(call)) {
    lower_triangle = mask->lower_triangle;
  } else if (!mask_is_unknown(call)) {
    lower_triangle = is_lower_triangle(sequence);
  }

  if (sequence.q_len == 1) {
    return used == 1 ? Phase::kPrefill : Phase::kDecode;
  }
  if (sequence.q_len <= decode_max_q && decode_max_q < used) {
    return Phase::kDecode;
  }
  if (lower_triangle) {
    return Phase::kPrefill;
  }
  if (sequence.q_len < used) {
    return Phase::kChunkedPrefill;
  }
  const bool not_causal = call.causal == records::Causal::kNone && !mask_is_unknown(call);
  return not_causal ? Phase::kEncode : Phase::kUnknown;
}

}  // namespace

Phase phase_of(const AttentionCall& call, std::int64_t decode_max_q) noexcept {
  if (call.cross) {
    return Phase::kCross;
  }
  if (!has_known_lengths(call)) {
    return Phase::kUnknown;
  }
  const std::size_t sequences = call.lengths ? sequence_count(call) : 1;
  bool any = false;
  Phase common = Phase::kUnknown;
  for (std::size_t i = 0; i < sequences; ++i) {
    const Sequence sequence = sequence_at(call, i);
    if (sequence.q_len <= 0) {
      continue;
    }
    const Phase phase = phase_of_sequence(call, sequence, decode_max_q);
    if (any && phase != common) {
      return Phase::kMixed;
    }
    any = true;
    common = phase;
  }
  return common;
}

std::shared_ptr<const PhaseShares> phase_shares(const AttentionCall& call, std::int64_t decode_max_q) {
  auto shares = std::make_shared<PhaseShares>();
  const std::uint64_t width = positive(call.geometry.head_dim) + positive(call.geometry.head_dim_v);
  const std::uint64_t of_query = width * positive(call.geometry.heads);
  const std::uint64_t of_key = width * positive(call.geometry.kv_heads);
  for (std::size_t i = 0; i < sequence_count(call); ++i) {
    const Sequence sequence = sequence_at(call, i);
    if (sequence.q_len <= 0) {
      continue;
    }
    const auto phase = static_cast<std::size_t>(phase_of_sequence(call, sequence, decode_max_q));
    ++shares->sequences[phase];
    shares->queries[phase] += positive(sequence.q_len);
    shares->pairs[phase] += admitted_pairs(sequence);
    shares->elements[phase] += of_query * positive(sequence.q_len) + of_key * positive(touched_keys(sequence).size());
  }
  return shares;
}

}  // namespace headscope::model
