#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/export.h"
#include "headscope/types.h"

/// The sections of Stats that are about serving a model; docs/inference.md gives their rules.
namespace headscope {

/// What one phase has of all calls of one direction. A mixed batch is divided over the phases of its sequences.
struct PhaseRow {
  Phase phase = Phase::kUnknown;
  Direction direction = Direction::kForward;
  /// Calls with a sequence of this phase; a mixed one counts in each of its phases.
  std::uint64_t calls = 0;
  /// Sequences and query tokens, summed over the calls: a model with 12 layers counts each token 12 times.
  std::optional<Count> sequences;
  std::optional<Count> tokens;
  std::optional<Nanoseconds> time;
  std::optional<Count> flops;
  std::optional<Count> bytes;
  /// Of the time: modelled once a mixed call was divided by admitted pairs.
  Provenance time_provenance = Provenance::kMeasured;

  friend bool operator==(const PhaseRow&, const PhaseRow&) = default;
};

/// What a position of PositionSeries is.
enum class PositionAxis : std::uint8_t {
  kKeyLength,   ///< keys used by a call: decode steps, and single queries across to another sequence
  kQueryBlock,  ///< index of a query in its sequence, counted from 1: all other calls, spread by admitted pairs
};

/// "key_length", "query_block".
HEADSCOPE_EXPORT std::string_view to_string(PositionAxis axis) noexcept;

/// Calls, or parts of calls, whose position is in [first, last].
struct PositionBin {
  std::int64_t first = 0;
  std::optional<std::int64_t> last;  ///< of the last bin there is, none
  std::uint64_t calls = 0;
  /// Queries, over batch and calls.
  Count tokens = 0;
  Nanoseconds total{};
  // Of kKeyLength only.
  std::optional<Range> kv_len;
  std::optional<Range> batch;
  std::optional<Nanoseconds> mean;
  std::optional<Nanoseconds> min;
  std::optional<Nanoseconds> p50;
  std::optional<Nanoseconds> p90;
  std::optional<Nanoseconds> p99;
  std::optional<Nanoseconds> max;
  /// Calls that took more than three times the median.
  std::optional<std::uint64_t> outliers;

  friend bool operator==(const PositionBin&, const PositionBin&) = default;
};

/// A line through the medians of the bins, each weighted by its calls: estimated.
struct PositionFit {
  double ns_per_1000_tokens = 0.0;
  double ns_at_0 = 0.0;

  friend bool operator==(const PositionFit&, const PositionFit&) = default;
};

/// The slowest outlier of a bin.
struct PositionOutlier {
  std::int64_t kv_len = 0;
  Nanoseconds time{};
  Nanoseconds p50{};  ///< of its bin
  std::uint64_t call_id = 0;
  std::int64_t step = 0;

  friend bool operator==(const PositionOutlier&, const PositionOutlier&) = default;
};

/// Time of forward calls by sequence position.
struct PositionSeries {
  /// std::nullopt: all layers together.
  std::optional<std::string> layer;
  std::optional<std::int64_t> layer_index;
  std::string variant;
  std::string op;
  Phase phase = Phase::kUnknown;
  std::string device;
  std::string dtype;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  PositionAxis axis = PositionAxis::kKeyLength;
  TimeSource source = TimeSource::kHost;
  /// Measured along key lengths; along query blocks modelled, or estimated where a mask hides which pairs are whose.
  Provenance provenance = Provenance::kMeasured;
  /// By position; at most 64, none empty.
  std::vector<PositionBin> bins;
  /// Along key lengths, where there are at least two bins.
  std::optional<PositionFit> fit;
  std::vector<PositionOutlier> outliers;

  friend bool operator==(const PositionSeries&, const PositionSeries&) = default;
};

/// A part of the program between the start and the end of a StageScope.
struct StageRow {
  /// "(attention)": of all calls; "(rest)": wall − attention − stages.
  std::string stage;
  std::uint64_t count = 0;
  Nanoseconds time{};
  /// Of the time during which the profiler was on.
  std::optional<double> wall_share;

  friend bool operator==(const StageRow&, const StageRow&) = default;
};

/// Attention of generation as a client sees it. A layer sees each prompt and each generated token once, so both are
/// counted by the layer that saw most.
struct RequestSection {
  /// Sequences whose prompt was prefilled.
  std::optional<Count> prompts;
  std::optional<Count> prompt_tokens;
  std::optional<Count> generated_tokens;
  /// Forward passes that began prompts, and that made tokens.
  std::uint64_t prefill_passes = 0;
  std::uint64_t decode_passes = 0;
  std::optional<Nanoseconds> prefill;
  std::optional<Nanoseconds> decode;
  /// Attention of a prompt's prefill, chunks included: prefill ÷ prefill_passes.
  std::optional<Nanoseconds> to_first_token;
  /// Attention between two tokens of a sequence: decode ÷ decode_passes.
  std::optional<Nanoseconds> between_tokens;
  /// decode ÷ generated_tokens: below `between_tokens` where sequences share a pass.
  std::optional<Nanoseconds> per_token;
  Provenance provenance = Provenance::kMeasured;

  friend bool operator==(const RequestSection&, const RequestSection&) = default;
};

}  // namespace headscope
