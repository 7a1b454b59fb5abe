#include "headscope/testing.h"

#include <gtest/gtest.h>

#include "headscope/error.h"
#include "stats_builders.h"

namespace headscope::report {
namespace {

using ::testing::ExplainMatchResult;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StringMatchResultListener;

TEST(MeetsBudget, MatchesStatsThatMeetIt) {
  EXPECT_THAT(a_small_model(), MeetsBudget({.layer = "*.0.*", .variant = "sdpa_flash"}));
}

TEST(MeetsBudget, DoesNotMatchStatsThatViolateIt) {
  EXPECT_THAT(a_small_model(), Not(MeetsBudget({.forbid_variants = {"sdpa_math"}})));
}

TEST(MeetsBudget, MessageListsEachViolation) {
  StringMatchResultListener listener;
  ExplainMatchResult(MeetsBudget({.forbid_variants = {"sdpa_math"}}), a_small_model(), &listener);
  EXPECT_THAT(listener.str(), HasSubstr("with 2 violations:\n  model.layers.2.self_attn: forbid_variants: asked not "
                                        "sdpa_math, measured sdpa_math because of dropout"));
}

TEST(MeetsBudget, BudgetWithoutALimitThrows) {
  EXPECT_THROW((void)::testing::Value(a_small_model(), MeetsBudget({})), Error);
}

TEST(MeetsBudget, FailureShowsTheReport) {
  EXPECT_THAT(::testing::PrintToString(a_small_model()), HasSubstr("attention: 24 calls"));
}

}  // namespace
}  // namespace headscope::report
