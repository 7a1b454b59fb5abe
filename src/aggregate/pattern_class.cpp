#include "aggregate/pattern_class.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace headscope::aggregate {
namespace {

constexpr double kUniformEntropy = 0.95;
constexpr double kOneTokenEntropy = 0.02;
constexpr double kLeastPattern = 0.1;
constexpr double kMostPattern = 0.9;
constexpr double kSinkMass = 0.5;
constexpr double kLocalMass = 0.75;
constexpr double kLocalIsAChoice = 64;  // keys; of fewer, the 32 nearest are most
constexpr double kFewShare = 0.1;
constexpr double kFewKeys = 4;

double total(const std::array<double, records::kDistanceBins>& mass) noexcept {
  return std::accumulate(mass.begin(), mass.end(), 0.0);
}

}  // namespace

PatternClass class_of(const records::HeadSample& sums, bool cross) noexcept {
  const auto rows = static_cast<double>(sums.rows);
  if (sums.entropy >= kUniformEntropy * rows) {
    return PatternClass::kUniform;
  }
  if (sums.sink_mass >= kSinkMass * rows) {
    return PatternClass::kSink;
  }
  if (!cross && sums.admitted_keys > kLocalIsAChoice * rows && sums.local_mass >= kLocalMass * rows) {
    return PatternClass::kLocal;
  }
  if (sums.attended_share <= kFewShare * rows || sums.keys_95 <= kFewKeys * rows) {
    return PatternClass::kFewTokens;
  }
  return PatternClass::kMixed;
}

std::optional<double> drift_between(const records::HeadSample& a, const records::HeadSample& b) noexcept {
  const double mass_a = total(a.mass_by_distance);
  const double mass_b = total(b.mass_by_distance);
  if (mass_a <= 0 || mass_b <= 0) {
    return std::nullopt;
  }
  double divergence = 0;
  for (std::size_t bin = 0; bin < records::kDistanceBins; ++bin) {
    const double p = a.mass_by_distance[bin] / mass_a;
    const double q = b.mass_by_distance[bin] / mass_b;
    const double middle = (p + q) / 2;
    divergence += p > 0 ? p * std::log2(p / middle) / 2 : 0;
    divergence += q > 0 ? q * std::log2(q / middle) / 2 : 0;
  }
  return std::sqrt(std::max(divergence, 0.0));
}

std::vector<Collapse> collapses(const std::map<std::int64_t, std::vector<PatternSums::Point>>& series) {
  struct Good {
    std::int64_t step;
    double entropy;
  };
  std::vector<std::optional<Good>> good;
  std::vector<bool> collapsed;
  std::vector<Collapse> found;
  for (const auto& [step, points] : series) {
    good.resize(std::max(good.size(), points.size()));
    collapsed.resize(good.size());
    for (std::size_t head = 0; head < points.size(); ++head) {
      if (points[head].rows == 0 || collapsed[head]) {
        continue;
      }
      const double entropy = points[head].entropy / static_cast<double>(points[head].rows);
      const bool uniform = entropy >= kUniformEntropy;
      if (good[head] && (uniform || entropy <= kOneTokenEntropy)) {
        collapsed[head] = true;
        found.push_back({.head = head,
                         .step = step,
                         .last_good_step = good[head]->step,
                         .collapsed_to = uniform ? "uniform" : "one_token",
                         .entropy_before = good[head]->entropy,
                         .entropy = entropy});
      } else if (entropy >= kLeastPattern && entropy <= kMostPattern) {
        good[head] = Good{step, entropy};
      }
    }
  }
  return found;
}

}  // namespace headscope::aggregate
