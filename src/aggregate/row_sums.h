#pragma once

#include <cstdint>
#include <optional>

#include "aggregate/cache_sums.h"
#include "aggregate/kernel_sums.h"
#include "aggregate/peak_call.h"
#include "aggregate/phase_parts.h"
#include "aggregate/position_sums.h"
#include "aggregate/sums.h"
#include "aggregate/time_sums.h"
#include "headscope/stats.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// Everything that a row of attention_breakdown says about its calls, in O(1) memory a row.
class RowSums {
 public:
  /// `memory` false: the call's memory figures count as not measured.
  void add(const records::CostedCall& costed, bool memory, std::int64_t step = 0);
  /// Calls of the same row.
  void merge(const RowSums& other);
  /// Calls of another row, for a total over rows.
  void absorb(const RowSums& other);

  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  /// Calls whose time is not known.
  [[nodiscard]] std::uint64_t untimed() const noexcept { return untimed_; }
  [[nodiscard]] std::int64_t first_start_ns() const noexcept { return time_.first_start_ns(); }
  /// Of the calls that were timed.
  [[nodiscard]] Count time_ns() const noexcept { return time_.total_ns(); }
  [[nodiscard]] std::optional<std::int64_t> peak_bytes() const noexcept { return peak_bytes_.value(); }
  /// The call with the largest peak.
  [[nodiscard]] const PeakCall& peak_call() const noexcept { return peak_call_; }
  /// The most that copies of K, V and mask took which were made before a call, outside its peak.
  [[nodiscard]] const PeakCall& copies_before() const noexcept { return copies_before_; }
  /// Empty of a total over rows.
  [[nodiscard]] const PositionSums& positions() const noexcept { return positions_; }
  [[nodiscard]] const PhaseParts& phases() const noexcept { return phases_; }
  [[nodiscard]] const CacheSums& cache() const noexcept { return cache_; }
  [[nodiscard]] std::optional<Count> flops() const noexcept { return flops_.value(); }

  /// Without calls every figure is absent.
  [[nodiscard]] Figures figures() const;
  /// Sets batch, lengths, causality, mask and fallback of `row`.
  void describe(AttentionRow& row) const;

 private:
  void merge_all_but_time(const RowSums& other);

  std::uint64_t calls_ = 0;
  TimeSums time_;  ///< of the calls that were timed
  std::uint64_t untimed_ = 0;
  Shared<TimeSource> time_source_;
  KnownSum host_;
  KnownSum glue_;
  KnownSum other_;
  KnownSum gap_;
  KnownMean launch_latency_;
  KnownMean queue_;
  KernelSums kernels_;
  PositionSums positions_;
  PhaseParts phases_;
  CacheSums cache_;
  KnownSum flops_;
  KnownSum flops_dense_;
  KnownSum recompute_flops_;
  KnownSum bytes_;
  KnownSum bytes_materialized_;
  KnownSum kv_copy_bytes_;
  KnownSum mask_copy_bytes_;
  KnownSum allocated_bytes_;
  KnownMax peak_bytes_;
  KnownMax score_bytes_;
  PeakCall peak_call_;
  PeakCall copies_before_;
  Weakest flops_provenance_{Provenance::kModelled};
  Weakest bytes_provenance_{Provenance::kModelled};
  Weakest materialized_provenance_{Provenance::kModelled};
  bool time_is_attention_ = true;

  Spread batch_;
  Spread q_len_;
  Spread kv_len_;
  Shared<records::Causal> causal_;
  Shared<bool> is_causal_;
  Shared<records::MaskState> mask_;
  Shared<records::FallbackReason> fallback_;
};

}  // namespace headscope::aggregate
