#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/wide.h"

/// Exact division of an integer over parts by weight.
namespace headscope::base {

/// Calls `emit(part, share)` for part = 0..parts−1 with
///
///     share = floor(total · W(≤part) / W) − floor(total · W(<part) / W),
///
/// W being the sum of the weights; the shares sum to `total` exactly, and parts of weight 0 get 0.
/// Equal shares when all weights are 0 or when `weights` does not hold one weight a part. Nothing is
/// emitted for `parts` = 0.
///
/// Any `total` is safe: total · W is never formed. Exact while W < 2⁶⁴ (the admitted pairs of a call
/// are); above, all weights are first halved until W fits, which shifts shares by less than their
/// rounding and keeps the sum exact.
template <class Emit>
constexpr void split(Wide total, std::size_t parts, std::span<const std::uint64_t> weights, Emit&& emit) {
  Wide sum = 0;
  if (weights.size() == parts) {
    for (const std::uint64_t weight : weights) {
      sum += weight;
    }
  }
  int shift = 0;
  while ((sum >> 64) != 0) {
    ++shift;
    sum = 0;
    for (const std::uint64_t weight : weights) {
      sum += weight >> shift;
    }
  }
  const bool equal = sum == 0;
  if (equal) {
    sum = parts;
  }
  if (parts == 0) {
    return;
  }

  // total = quotient · W + remainder, hence floor(total · c / W) = quotient · c + floor(remainder · c / W),
  // where remainder · c < 2¹²⁸ because both factors are below 2⁶⁴.
  const Wide quotient = total / sum;
  const Wide remainder = total % sum;
  Wide cumulative = 0;
  Wide given = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    cumulative += equal ? 1 : weights[part] >> shift;
    const Wide up_to_here = quotient * cumulative + remainder * cumulative / sum;
    emit(part, up_to_here - given);
    given = up_to_here;
  }
}

/// The same into `shares`, one part an element.
constexpr void split(Wide total, std::span<const std::uint64_t> weights, std::span<Wide> shares) {
  split(total, shares.size(), weights, [shares](std::size_t part, Wide share) { shares[part] = share; });
}

}  // namespace headscope::base
