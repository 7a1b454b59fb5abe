#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "records/attention_call.h"
#include "records/pattern_sample.h"

namespace headscope::aggregate {

/// Samples of one layer, folded by head. Bounded whatever the number of steps.
class PatternSums {
 public:
  /// Sampled steps whose entropies are kept apart; of more, every other one goes.
  static constexpr std::size_t kMaxPoints = 256;

  struct Point {
    double entropy = 0;  ///< sum over the rows
    std::uint64_t rows = 0;
  };
  /// All heads at one step.
  struct Step {
    std::int64_t step = 0;
    std::vector<records::HeadSample> heads;
  };

  void add(const records::PatternSample& sample, std::int64_t step);
  void merge(const PatternSums& other);

  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  [[nodiscard]] bool cross() const noexcept { return cross_; }
  [[nodiscard]] const std::vector<records::HeadSample>& total() const noexcept { return total_; }
  [[nodiscard]] const Step& first() const noexcept { return first_; }
  [[nodiscard]] const Step& last() const noexcept { return last_; }
  /// The entropies of each head by step.
  [[nodiscard]] const std::map<std::int64_t, std::vector<Point>>& series() const noexcept { return series_; }

 private:
  void thin_out();

  std::uint64_t calls_ = 0;
  bool cross_ = false;
  std::vector<records::HeadSample> total_;
  Step first_;
  Step last_;
  std::map<std::int64_t, std::vector<Point>> series_;
};

/// Calls that were to be sampled and were not, by reason.
class NotSampledCounts {
 public:
  void add(records::NotSampled reason) noexcept { ++calls_[static_cast<std::size_t>(reason)]; }
  void merge(const NotSampledCounts& other) noexcept;
  [[nodiscard]] std::uint64_t calls(records::NotSampled reason) const noexcept {
    return calls_[static_cast<std::size_t>(reason)];
  }

 private:
  std::array<std::uint64_t, records::kNotSampledReasons> calls_{};
};

}  // namespace headscope::aggregate
