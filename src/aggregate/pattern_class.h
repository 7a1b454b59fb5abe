#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "aggregate/pattern_sums.h"
#include "headscope/patterns.h"
#include "records/pattern_sample.h"

namespace headscope::aggregate {

/// The class of a head by its means, the first that holds: uniform with entropy ≥ 0.95; sink with half the mass on the
/// first key; local with 0.75 of it on the 32 nearest keys of more than 64; few tokens with 95 % of it on at most a
/// tenth of the keys, or on 4; else mixed. Means do not mislead where rows differ little, which classes are about.
PatternClass class_of(const records::HeadSample& sums, bool cross) noexcept;

/// √JSD, base 2, between the distributions over key distance of two samples; std::nullopt when either has no rows.
/// Jensen–Shannon divergence: J. Lin, "Divergence measures based on the Shannon entropy", IEEE Trans. IT 37 (1991).
std::optional<double> drift_between(const records::HeadSample& a, const records::HeadSample& b) noexcept;

/// A head's step from a pattern to none.
struct Collapse {
  std::size_t head = 0;
  std::int64_t step = 0;
  std::int64_t last_good_step = 0;
  std::string_view collapsed_to;
  double entropy_before = 0;
  double entropy = 0;
};

/// The first collapse of each head: entropy at or above 0.95 (uniform) or at or below 0.02 (one token) at a step, after
/// a step at which it was between 0.1 and 0.9.
std::vector<Collapse> collapses(const std::map<std::int64_t, std::vector<PatternSums::Point>>& series);

}  // namespace headscope::aggregate
