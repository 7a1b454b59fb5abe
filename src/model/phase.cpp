#include "model/phase.h"

#include <algorithm>
#include <cstddef>

#include "model/facts.h"
#include "model/pairs.h"

namespace headscope::model {

using records::AttentionCall;

namespace {

Phase phase_of_sequence(const AttentionCall& call, const Sequence& sequence, std::int64_t decode_max_q) noexcept {
  std::int64_t used_keys = 0;
  bool lower_triangle = false;
  if (const records::MaskCount* mask = counted_mask(call)) {
    used_keys = std::min(mask->used_keys, sequence.kv_len);
    lower_triangle = mask->lower_triangle;
  } else if (mask_is_unknown(call)) {
    used_keys = sequence.kv_len;
  } else {
    used_keys = touched_keys(sequence).end;
    lower_triangle = is_lower_triangle(sequence);
  }

  if (sequence.q_len == 1) {
    return used_keys == 1 ? Phase::kPrefill : Phase::kDecode;
  }
  if (sequence.q_len <= decode_max_q && decode_max_q < used_keys) {
    return Phase::kDecode;
  }
  if (lower_triangle) {
    return Phase::kPrefill;
  }
  if (sequence.q_len < used_keys) {
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

}  // namespace headscope::model
