#include "aggregate/pattern_sums.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace headscope::aggregate {
namespace {

void add_heads(std::vector<records::HeadSample>& sums, const std::vector<records::HeadSample>& heads) {
  sums.resize(std::max(sums.size(), heads.size()));
  for (std::size_t head = 0; head < heads.size(); ++head) {
    sums[head].add(heads[head]);
  }
}

void add_points(std::vector<PatternSums::Point>& sums, const std::vector<PatternSums::Point>& points) {
  sums.resize(std::max(sums.size(), points.size()));
  for (std::size_t head = 0; head < points.size(); ++head) {
    sums[head].entropy += points[head].entropy;
    sums[head].rows += points[head].rows;
  }
}

/// Keeps the step that is `before` the other one; what belongs to the same step is summed.
template <class Before>
void keep(PatternSums::Step& kept, const PatternSums::Step& other, Before before) {
  if (other.heads.empty()) {
    return;
  }
  if (kept.heads.empty() || before(other.step, kept.step)) {
    kept = other;
  } else if (other.step == kept.step) {
    add_heads(kept.heads, other.heads);
  }
}

}  // namespace

void PatternSums::add(const records::PatternSample& sample, std::int64_t step) {
  PatternSums one;
  one.calls_ = 1;
  one.cross_ = sample.cross;
  one.total_ = sample.heads;
  one.first_ = one.last_ = {step, sample.heads};
  std::vector<Point>& points = one.series_[step];
  for (const records::HeadSample& head : sample.heads) {
    points.push_back({head.entropy, head.rows});
  }
  merge(one);
}

void PatternSums::merge(const PatternSums& other) {
  calls_ += other.calls_;
  cross_ = cross_ || other.cross_;
  add_heads(total_, other.total_);
  keep(first_, other.first_, std::less<>{});
  keep(last_, other.last_, std::greater<>{});
  for (const auto& [step, points] : other.series_) {
    add_points(series_[step], points);
  }
  thin_out();
}

void PatternSums::thin_out() {
  while (series_.size() > kMaxPoints) {
    // The first and the last one stay: what collapsed is told by them.
    for (auto point = series_.begin(); std::next(point) != series_.end() && std::next(point, 2) != series_.end();) {
      point = series_.erase(std::next(point));
    }
  }
}

void NotSampledCounts::merge(const NotSampledCounts& other) noexcept {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    calls_[i] += other.calls_[i];
  }
}

}  // namespace headscope::aggregate
