#include "aggregate/step_series.h"

#include <algorithm>

namespace headscope::aggregate {

void StepSeries::Entry::merge(const Entry& later) noexcept {
  last = later.last;
  steps += later.steps;
  wall_ns += later.wall_ns;
  sums.merge(later.sums);
}

void StepSeries::add(std::int64_t number, std::int64_t wall_ns, const StepSums& sums) {
  const Entry entry{.first = number, .last = number, .steps = 1, .wall_ns = wall_ns, .sums = sums};
  if (!entries_.empty() && entries_.back().steps < steps_a_point_) {
    entries_.back().merge(entry);
    return;
  }
  entries_.reserve(kMaxPoints);  // later steps allocate nothing
  if (entries_.size() == kMaxPoints) {
    halve();
  }
  entries_.push_back(entry);
}

void StepSeries::add_to(std::int64_t number, const StepSums& sums) noexcept {
  const auto entry = std::ranges::lower_bound(entries_, number, {}, &Entry::last);
  if (entry != entries_.end() && entry->first <= number) {
    entry->sums.merge(sums);
  }
}

void StepSeries::halve() {
  for (std::size_t i = 0; i < kMaxPoints / 2; ++i) {
    entries_[i] = entries_[2 * i];
    entries_[i].merge(entries_[2 * i + 1]);
  }
  entries_.resize(kMaxPoints / 2);
  steps_a_point_ *= 2;
}

StepSeries StepSeries::since(std::int64_t number) const {
  StepSeries later = *this;
  std::erase_if(later.entries_, [number](const Entry& entry) { return entry.first < number; });
  return later;
}

std::vector<StepPoint> StepSeries::points() const {
  std::vector<StepPoint> points;
  points.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    StepPoint& point = points.emplace_back();
    point.first_step = entry.first;
    point.last_step = entry.last;
    point.steps = entry.steps;
    point.wall = Nanoseconds(entry.wall_ns);
    entry.sums.describe(point);
  }
  return points;
}

}  // namespace headscope::aggregate
