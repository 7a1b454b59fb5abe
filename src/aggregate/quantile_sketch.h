#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::aggregate {

/// Quantiles of positive integers in bounded memory: counts in logarithmic buckets (DDSketch, Masson et al.,
/// VLDB 2019). Sketches merge without loss: merging gives the sketch of all samples together.
///
/// Error: an estimate is within kRelativeError of a sample of that rank, and within 1 % once rounded to an
/// integer (below 100 the rounded estimate is exact). Range: 1 to kLargest; smaller samples count as 1, larger
/// ones as kLargest. Memory: at most kBuckets counters, and only for the span between the smallest and largest
/// sample.
class QuantileSketch {
 public:
  static constexpr double kRelativeError = 0.005;
  /// 2⁴³: 2.4 hours in nanoseconds.
  static constexpr std::int64_t kLargest = std::int64_t{1} << 43;
  static constexpr std::size_t kBuckets = 3008;

  void add(std::int64_t sample, std::uint64_t times = 1);
  void merge(const QuantileSketch& other);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Estimate of the sample whose rank is ⌈quantile · count⌉ (at least 1); 0 when empty.
  [[nodiscard]] double quantile(double quantile) const noexcept;
  /// Samples above `value`, as far as the buckets tell them apart.
  [[nodiscard]] std::uint64_t count_above(double value) const noexcept;
  /// Counters held, for tests of the bound.
  [[nodiscard]] std::size_t buckets() const noexcept { return counts_.size(); }

 private:
  void cover(std::size_t first, std::size_t last);

  std::uint64_t count_ = 0;
  std::size_t first_bucket_ = 0;
  std::vector<std::uint64_t> counts_;
};

}  // namespace headscope::aggregate
