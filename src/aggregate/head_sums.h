#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "aggregate/sums.h"
#include "headscope/types.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// One figure of many calls, each call's value split over the heads with cumulative floors. Equal shares cost
/// O(1) a call: a value X = q·H + r gives q to every head and one more to the heads that r alone decides, so
/// calls are counted by r.
class SplitSum {
 public:
  /// No split is kept with 0 heads.
  explicit SplitSum(std::size_t heads) : by_remainder_(heads) {}

  void add_equal(std::optional<std::uint64_t> value) noexcept;
  /// O(heads). The weights of the heads, one each.
  void add_weighted(std::optional<std::uint64_t> value, const std::vector<std::uint64_t>& weights);
  void merge(const SplitSum& other);

  /// The sum of each head; std::nullopt when some call's value was unknown.
  [[nodiscard]] std::optional<std::vector<Count>> shares() const;

 private:
  Count quotients_ = 0;
  std::uint64_t unknown_ = 0;
  std::vector<std::uint64_t> by_remainder_;
  std::vector<Count> weighted_;  // empty until a call has weights
};

/// The heads of the calls with the same (layer, direction, heads, kv_heads).
class HeadSums {
 public:
  explicit HeadSums(std::size_t heads)
      : flops_(heads),
        time_(heads),
        bytes_(heads),
        bytes_materialized_(heads),
        allocated_bytes_(heads),
        heads_(heads) {}

  void add(const records::CostedCall& costed, bool memory);
  void merge(const HeadSums& other);

  /// Heads that are kept apart; 0 when they are not known or too many.
  [[nodiscard]] std::size_t heads() const noexcept { return heads_; }
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  [[nodiscard]] const SplitSum& flops() const noexcept { return flops_; }
  [[nodiscard]] const SplitSum& time_ns() const noexcept { return time_; }
  [[nodiscard]] const SplitSum& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const SplitSum& bytes_materialized() const noexcept { return bytes_materialized_; }
  [[nodiscard]] const SplitSum& allocated_bytes() const noexcept { return allocated_bytes_; }
  [[nodiscard]] Provenance time_provenance() const noexcept { return time_provenance_.value(); }

 private:
  std::uint64_t calls_ = 0;
  SplitSum flops_;
  SplitSum time_;
  SplitSum bytes_;
  SplitSum bytes_materialized_;
  SplitSum allocated_bytes_;
  std::size_t heads_;
  Weakest time_provenance_{Provenance::kModelled};
};

}  // namespace headscope::aggregate
