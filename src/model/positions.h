#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "records/attention_call.h"

/// Sequence positions in bins, three an octave, so that 64 reach beyond two million tokens.
namespace headscope::model {

inline constexpr std::size_t kPositionBins = 64;

/// Positions [first, last]; the last bin has no end.
struct PositionRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// The bin of a position. Positions count from 1: the token at position n sees n keys under a causal mask. Smaller
/// ones are taken as 1.
std::size_t position_bin(std::int64_t position) noexcept;
PositionRange position_range(std::size_t bin) noexcept;

/// Whether a call's time belongs to one position, its key length: a decode step, or one query across to another
/// sequence. Otherwise the call spreads over its query blocks.
bool has_one_position(const records::CostedCall& costed) noexcept;

/// Mean number of used keys over the sequences of the batch, rounded; 0 when the lengths are not known.
std::int64_t mean_used_keys(const records::AttentionCall& call) noexcept;

/// What each block of query positions has of a call, of one head.
struct QueryBlocks {
  std::array<std::uint64_t, kPositionBins> queries{};
  /// By which the call's time divides: admitted pairs, or queries where the mask does not tell pairs by row.
  std::array<std::uint64_t, kPositionBins> weights{};
  /// `weights` are pairs.
  bool exact = true;
};

/// Needs known lengths. A query's position is its index, counted from the first key that belongs to its sequence:
/// where a chunk continues a prompt, behind the keys that are there already.
QueryBlocks query_blocks(const records::AttentionCall& call) noexcept;

}  // namespace headscope::model
