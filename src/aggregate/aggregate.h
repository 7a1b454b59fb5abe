#pragma once

#include <cstddef>
#include <cstdint>

#include "aggregate/flat_table.h"
#include "aggregate/head_sums.h"
#include "aggregate/kept_calls.h"
#include "aggregate/pattern_sums.h"
#include "aggregate/row_key.h"
#include "aggregate/row_sums.h"
#include "aggregate/tolerance_sums.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// What a profiler wants to have folded.
struct Wanted {
  bool per_head = true;
  bool memory = true;
  std::size_t keep_calls = 0;
  std::int64_t patterns_every = 0;  ///< steps; 0: samples are not folded
  bool tolerance = false;
};

/// Calls folded into rows, in memory bounded by the number of rows, whatever the number of calls. Not
/// thread-safe; aggregates of several threads merge to what one would have held.
///
/// Bounds: beyond kMaxRows rows, calls that would need another one go to `attention[*]` (a row for each op,
/// phase and geometry). Were there kMaxOtherRows of these too, calls count in the total and in no row. Heads are
/// kept apart up to kMaxHeads a layer and kMaxHeadCells in all; beyond that a layer has no head rows. Layers whose
/// heads would be beyond kMaxPatternHeads have no patterns.
class Aggregate {
 public:
  static constexpr std::size_t kMaxRows = 65'536;
  static constexpr std::size_t kMaxOtherRows = 4'096;
  static constexpr std::size_t kMaxHeads = 4'096;
  static constexpr std::size_t kMaxHeadCells = std::size_t{1} << 20;
  /// Heads whose patterns are kept, over all layers.
  static constexpr std::size_t kMaxPatternHeads = std::size_t{1} << 14;

  using Rows = FlatTable<RowKey, RowSums>;
  using Heads = FlatTable<HeadKey, HeadSums>;
  using Patterns = FlatTable<HeadKey, PatternSums>;
  using Tolerances = FlatTable<HeadKey, ToleranceSums>;

  explicit Aggregate(Wanted wanted) : wanted_(wanted), kept_(wanted.keep_calls) {}

  void add(const records::CostedCall& costed, LayerKey layer, std::int64_t step);
  void merge(const Aggregate& other);

  [[nodiscard]] const Rows& rows() const noexcept { return rows_; }
  [[nodiscard]] const Heads& heads() const noexcept { return heads_; }
  [[nodiscard]] const Patterns& patterns() const noexcept { return patterns_; }
  [[nodiscard]] const Tolerances& tolerances() const noexcept { return tolerances_; }
  [[nodiscard]] const NotSampledCounts& not_sampled() const noexcept { return not_sampled_; }
  [[nodiscard]] const KeptCalls& kept_calls() const noexcept { return kept_; }
  /// Calls in no row.
  [[nodiscard]] const RowSums& unplaced() const noexcept { return unplaced_; }
  [[nodiscard]] std::uint64_t calls_seen() const noexcept { return calls_seen_; }
  /// Calls of a layer that had no label left, or no row.
  [[nodiscard]] std::uint64_t calls_beyond_labels() const noexcept { return calls_beyond_labels_; }
  /// Calls whose heads are not kept apart.
  [[nodiscard]] std::uint64_t calls_without_heads() const noexcept { return calls_without_heads_; }

 private:
  // The row of `key`, whose layer it may change to kOther; nullptr when the tables are full.
  RowSums* row_of(RowKey& key);
  HeadSums& heads_of(const HeadKey& key, std::size_t heads);
  // nullptr when there is no room for `heads` more.
  PatternSums* patterns_of(const HeadKey& key, std::size_t heads);
  ToleranceSums& tolerances_of(const HeadKey& key);
  void add_patterns(const records::CostedCall& costed, LayerKey layer, std::int64_t step);

  Wanted wanted_;
  Rows rows_;
  Heads heads_;
  Patterns patterns_;
  Tolerances tolerances_;  // of layers that have patterns
  NotSampledCounts not_sampled_;
  KeptCalls kept_;
  RowSums unplaced_;
  std::size_t other_rows_ = 0;
  std::size_t head_cells_ = 0;
  std::size_t pattern_heads_ = 0;
  std::uint64_t calls_seen_ = 0;
  std::uint64_t calls_beyond_labels_ = 0;
  std::uint64_t calls_without_heads_ = 0;
};

}  // namespace headscope::aggregate
