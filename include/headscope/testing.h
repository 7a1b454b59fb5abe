#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <utility>
#include <vector>

#include "headscope/budget.h"
#include "headscope/report.h"
#include "headscope/stats.h"

/// Matchers for tests with GoogleTest; the only header that needs it. Link GTest::gmock beside headscope.

namespace headscope {

/// Matches Stats that meet a Budget; the message of a failure lists the violations, a line each.
///
///     EXPECT_THAT(profiler.get_stats(), headscope::MeetsBudget({.forbid_variants = {"sdpa_math"}}));
class BudgetMatcher {
 public:
  using is_gtest_matcher = void;

  explicit BudgetMatcher(Budget budget) : budget_(std::move(budget)) {}

  bool MatchAndExplain(const Stats& stats, std::ostream* out) const {
    const std::vector<Violation> violations = stats.check(budget_);
    if (out != nullptr && !violations.empty()) {
      *out << "with " << violations.size() << (violations.size() == 1 ? " violation:" : " violations:");
      for (const Violation& violation : violations) {
        *out << "\n  " << to_string(violation);
      }
    }
    return violations.empty();
  }
  void DescribeTo(std::ostream* out) const { *out << "meets the attention budget"; }
  void DescribeNegationTo(std::ostream* out) const { *out << "does not meet the attention budget"; }

 private:
  Budget budget_;
};

/// Throws Error, when it is matched, for a Budget that limits nothing.
inline ::testing::Matcher<const Stats&> MeetsBudget(Budget budget) { return BudgetMatcher(std::move(budget)); }

/// How GoogleTest shows Stats.
inline void PrintTo(const Stats& stats, std::ostream* out) { *out << '\n' << to_text(stats); }

}  // namespace headscope
