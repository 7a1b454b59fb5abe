#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aggregate/step_sums.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// Figures step by step, in bounded memory: when kMaxPoints are full, neighbours are merged two by two, and
/// from then on a point takes twice as many steps.
class StepSeries {
 public:
  static constexpr std::size_t kMaxPoints = 512;

  /// A step that ended; numbers must ascend. `wall_ns`: how long the profiler was on in it.
  void add(std::int64_t number, std::int64_t wall_ns, const StepSums& sums);

  /// Adds calls of a step that was added before; without effect when it was not.
  void add_to(std::int64_t number, const StepSums& sums) noexcept;

  [[nodiscard]] std::vector<StepPoint> points() const;
  /// The points whose steps all have at least this number.
  [[nodiscard]] StepSeries since(std::int64_t number) const;

 private:
  struct Entry {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t steps = 0;
    std::int64_t wall_ns = 0;
    StepSums sums;

    void merge(const Entry& later) noexcept;
  };

  void halve();

  std::vector<Entry> entries_;
  std::int64_t steps_a_point_ = 1;
};

}  // namespace headscope::aggregate
