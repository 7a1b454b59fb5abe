#pragma once

#include <cstdint>

#include "aggregate/quantile_sketch.h"
#include "headscope/stats.h"
#include "headscope/types.h"

namespace headscope::aggregate {

/// The times of a row's calls. The earliest call is kept apart as `first`; mean, min, max, the population
/// standard deviation and quantiles are of the others. Sums of times and of their squares are exact integers, so
/// that the order of adding and merging changes nothing.
class TimeSums {
 public:
  /// `start_ns` orders calls: the earliest is the first.
  void add(std::int64_t time_ns, std::int64_t start_ns);
  /// Calls of the same row: of the two firsts the later one becomes an ordinary call.
  void merge(const TimeSums& other);
  /// Calls of another row, for a total over rows: each row's first stays apart.
  void absorb(const TimeSums& other);

  [[nodiscard]] Count total_ns() const noexcept { return total_; }
  /// When the first call began.
  [[nodiscard]] std::int64_t first_start_ns() const noexcept { return first_start_; }
  /// All zero without calls.
  [[nodiscard]] TimeStats stats() const;

 private:
  void add_other(std::int64_t time_ns);
  void merge_others(const TimeSums& other);

  bool empty_ = true;
  std::int64_t first_ = 0;
  std::int64_t first_start_ = 0;
  Count total_ = 0;
  // Of the calls but the first.
  std::uint64_t others_ = 0;
  Count sum_ = 0;
  Count squares_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  QuantileSketch sketch_;
};

}  // namespace headscope::aggregate
