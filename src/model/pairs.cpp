#include "model/pairs.h"

#include <algorithm>

#include "model/facts.h"

namespace headscope::model {

using records::AttentionCall;
using records::Causal;
using records::MaskState;

namespace {

/// Query i sees the keys [i + begin, i + end), cut to [0, keys).
struct Band {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Band band_of(const Sequence& sequence) noexcept {
  const std::int64_t queries = std::max<std::int64_t>(sequence.q_len, 0);
  const std::int64_t keys = std::max<std::int64_t>(sequence.kv_len, 0);
  const bool lower_right =
      sequence.causal == Causal::kLowerRight || (sequence.causal == Causal::kNone && sequence.window.lower_right);
  const std::int64_t diagonal = lower_right ? keys - queries : 0;
  // From any query this reaches every key, so an unlimited side needs no case of its own.
  const std::int64_t unlimited = queries + keys;
  const auto reach = [unlimited](std::int64_t side) { return side < 0 ? unlimited : std::min(side, unlimited); };
  const std::int64_t left = reach(sequence.window.left);
  const std::int64_t right = sequence.causal == Causal::kNone ? reach(sequence.window.right) : 0;
  return {queries, keys, diagonal - left, diagonal + right + 1};
}

/// Σ clamp(u, 0, keys) over all u < t. Unsigned, so that a difference of two is exact modulo 2⁶⁴.
std::uint64_t clamped_sum(std::int64_t t, std::int64_t keys) noexcept {
  if (t <= 0) {
    return 0;
  }
  const auto n = static_cast<std::uint64_t>(std::min(t, keys));
  const std::uint64_t rising = n == 0 ? 0 : n * (n - 1) / 2;
  return t <= keys ? rising : rising + static_cast<std::uint64_t>(keys) * static_cast<std::uint64_t>(t - keys);
}

std::uint64_t pairs_between(const Band& band, std::int64_t from, std::int64_t to) noexcept {
  const std::uint64_t up_to_end = clamped_sum(to + band.end, band.keys) - clamped_sum(from + band.end, band.keys);
  const std::uint64_t before = clamped_sum(to + band.begin, band.keys) - clamped_sum(from + band.begin, band.keys);
  return up_to_end - before;
}

void add_sequence(const AttentionCall& call, const Sequence& sequence, std::uint64_t copies, bool mask_decides,
                  CallPairs& sum) noexcept {
  const std::uint64_t queries = positive(sequence.q_len);
  const std::uint64_t keys = positive(sequence.kv_len);
  sum.queries += copies * queries;
  sum.keys += copies * keys;
  sum.keys_touched += copies * (call.window.limited() ? positive(touched_keys(sequence).size()) : keys);
  sum.dense += base::Wide{queries} * keys * copies;
  if (!mask_decides) {
    sum.admitted += base::Wide{admitted_pairs(sequence)} * copies;
  }
}

}  // namespace

std::uint64_t admitted_pairs(const Sequence& sequence) noexcept {
  const Band band = band_of(sequence);
  return pairs_between(band, 0, band.queries);
}

std::uint64_t admitted_pairs(const Sequence& sequence, std::int64_t from, std::int64_t to) noexcept {
  const Band band = band_of(sequence);
  const std::int64_t first = std::clamp<std::int64_t>(from, 0, band.queries);
  const std::int64_t last = std::clamp<std::int64_t>(to, first, band.queries);
  return pairs_between(band, first, last);
}

KeyRange touched_keys(const Sequence& sequence) noexcept {
  const Band band = band_of(sequence);
  if (band.queries == 0) {
    return {};
  }
  const KeyRange range{std::clamp<std::int64_t>(band.begin, 0, band.keys),
                       std::clamp<std::int64_t>(band.queries - 1 + band.end, 0, band.keys)};
  return range.size() > 0 ? range : KeyRange{};
}

std::int64_t used_keys(const AttentionCall& call, const Sequence& sequence) noexcept {
  if (const records::MaskCount* mask = counted_mask(call)) {
    return std::min(mask->used_keys, sequence.kv_len);
  }
  return mask_is_unknown(call) ? sequence.kv_len : touched_keys(sequence).end;
}

bool is_lower_triangle(const Sequence& sequence) noexcept {
  const bool limited = sequence.causal != Causal::kNone || sequence.window.right >= 0;
  return limited && band_of(sequence).end <= 1;
}

std::size_t sequence_count(const AttentionCall& call) noexcept {
  if (call.lengths) {
    return std::max(call.lengths->q.size(), call.lengths->k.size());
  }
  return positive(call.geometry.batch);
}

Sequence sequence_at(const AttentionCall& call, std::size_t index) noexcept {
  Sequence sequence{call.geometry.q_len, call.geometry.kv_len, call.causal, call.window};
  if (call.lengths && !call.lengths->q.empty()) {
    sequence.q_len = call.lengths->q[index];
  }
  if (call.lengths && !call.lengths->k.empty()) {
    sequence.kv_len = call.lengths->k[index];
  }
  return sequence;
}

std::optional<CallPairs> call_pairs(const AttentionCall& call) noexcept {
  if (!has_known_lengths(call)) {
    return std::nullopt;
  }
  const bool mask_decides = call.mask != MaskState::kNone;
  CallPairs sum;
  if (call.lengths) {
    const std::size_t count = sequence_count(call);
    for (std::size_t i = 0; i < count; ++i) {
      add_sequence(call, sequence_at(call, i), 1, mask_decides, sum);
    }
  } else {
    add_sequence(call, sequence_at(call, 0), sequence_count(call), mask_decides, sum);
  }
  const std::uint64_t heads = positive(call.geometry.heads);
  sum.dense *= heads;
  sum.admitted *= heads;
  if (const records::MaskCount* mask = counted_mask(call)) {
    sum.admitted = mask->pairs;
  } else if (mask_decides) {
    sum.admitted = sum.dense;
  }
  return sum;
}

}  // namespace headscope::model
