#pragma once

#include <cstddef>
#include <cstdint>

#include "headscope/types.h"
#include "records/attention_call.h"

/// Questions that every part of the work model asks of a call.
namespace headscope::model {

/// A length or count as unsigned; negative ones are 0.
constexpr std::uint64_t positive(std::int64_t value) noexcept {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

inline bool is_fused(const records::AttentionCall& call) noexcept {
  return call.op == nullptr || call.op->kernel == records::Kernel::kFused;
}

inline bool is_backward(const records::AttentionCall& call) noexcept { return call.direction == Direction::kBackward; }

/// Lengths that are known and agree in number. An empty side stands for sequences of the geometry's length.
inline bool has_known_lengths(const records::AttentionCall& call) noexcept {
  if (call.lengths_unknown) {
    return false;
  }
  if (!call.lengths) {
    return true;
  }
  const std::size_t q = call.lengths->q.size();
  const std::size_t k = call.lengths->k.size();
  return q == k || q == 0 || k == 0;
}

/// The call's mask, when it was counted.
inline const records::MaskCount* counted_mask(const records::AttentionCall& call) noexcept {
  return call.mask == records::MaskState::kCounted ? call.mask_count.get() : nullptr;
}

/// The call may hold a mask whose pairs are not known.
inline bool mask_is_unknown(const records::AttentionCall& call) noexcept {
  return call.mask != records::MaskState::kNone && counted_mask(call) == nullptr;
}

}  // namespace headscope::model
