#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "headscope/error.h"
#include "headscope/stats.h"
#include "stats_builders.h"

namespace headscope::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

auto violates(const std::string& layer, const std::string& limit) {
  return AllOf(Field("layer", &Violation::layer, layer), Field("limit", &Violation::limit, limit));
}

TEST(BudgetCheck, BudgetWithoutALimitIsAnErrorThatNamesTheLimits) {
  try {
    (void)a_small_model().check({.layer = "*"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("variant"), HasSubstr("max_step_bytes"), HasSubstr("max_p50_us")));
  }
}

TEST(BudgetCheck, LimitThatIsNoNumberIsAnError) {
  EXPECT_THROW((void)a_small_model().check({.min_gb_per_s = std::numeric_limits<double>::quiet_NaN()}), Error);
}

TEST(BudgetCheck, SelectionWithoutRowsIsAViolation) {
  const auto violations = a_small_model().check({.layer = "decoder.*", .variant = "sdpa_flash"});
  ASSERT_THAT(violations, ElementsAre(violates("decoder.*", "selection")));
  EXPECT_THAT(violations[0].measured, HasSubstr("no attention matched"));
}

TEST(BudgetCheck, SelectionWithoutRowsNamesTheLayersSeen) {
  EXPECT_THAT(a_small_model().check({.layer = "decoder.*", .variant = "sdpa_flash"})[0].measured,
              HasSubstr("model.layers.0.self_attn"));
}

TEST(BudgetCheck, SelectionWithoutRowsMayBeAllowed) {
  EXPECT_THAT(a_small_model().check({.layer = "decoder.*", .variant = "sdpa_flash", .allow_missing = true}), IsEmpty());
}

TEST(BudgetCheck, LayerGlobSelectsRows) {
  EXPECT_THAT(a_small_model().check({.layer = "*.0.*", .variant = "sdpa_flash"}), IsEmpty());
}

TEST(BudgetCheck, DirectionSelectsRows) {
  EXPECT_THAT(a_small_model().check({.direction = Direction::kBackward, .variant = "sdpa_flash"}),
              ElementsAre(violates("model.layers.2.self_attn", "variant")));
}

TEST(BudgetCheck, PhaseSelectsRows) {
  const Stats stats = stats_of({a_row("a").phase(Phase::kDecode), a_row("b").phase(Phase::kPrefill)});
  EXPECT_THAT(stats.check({.phase = Phase::kDecode, .variant = "x"}), ElementsAre(violates("a", "variant")));
}

TEST(BudgetCheck, OtherVariantIsAViolationWithItsReason) {
  const auto violations = a_small_model().check({.direction = Direction::kForward, .variant = "sdpa_flash"});
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(to_string(violations[0]),
            "model.layers.2.self_attn: variant: asked sdpa_flash, measured sdpa_math because of dropout (sdpa_math, "
            "encode, forward)");
}

TEST(BudgetCheck, ForbiddenVariantIsAViolation) {
  EXPECT_THAT(a_small_model().check({.direction = Direction::kForward, .forbid_variants = {"eager", "sdpa_math"}}),
              ElementsAre(violates("model.layers.2.self_attn", "forbid_variants")));
}

TEST(BudgetCheck, BandwidthBelowTheLimitIsAViolation) {
  const Stats stats = stats_of({a_row("a").time_us(1).bytes(3'000), a_row("b").time_us(1).bytes(5'000)});
  EXPECT_THAT(stats.check({.min_gb_per_s = 4.0}),
              ElementsAre(Violation{"a", "min_gb_per_s", "≥ 4.00 GB/s", "3.00 GB/s (sdpa_flash, encode, forward)"}));
}

TEST(BudgetCheck, BandwidthAtTheLimitIsMet) {
  EXPECT_THAT(stats_of({a_row("a").time_us(1).bytes(4'000)}).check({.min_gb_per_s = 4.0}), IsEmpty());
}

TEST(BudgetCheck, UnknownFigureIsAViolation) {
  const Stats stats = stats_of({a_row("a").bytes(3'000)});
  EXPECT_THAT(stats.check({.min_gb_per_s = 4.0}), ElementsAre(violates("a", "min_gb_per_s")));
  EXPECT_THAT(stats.check({.min_gb_per_s = 4.0, .allow_missing = true}), IsEmpty());
}

TEST(BudgetCheck, MedianAboveTheLimitIsAViolation) {
  const Stats stats = stats_of({a_row("a").calls(6).time_us(600).p50_us(101)});
  EXPECT_THAT(stats.check({.max_p50_us = 100.0}),
              ElementsAre(Violation{"a", "max_p50_us", "≤ 100 µs", "101 µs (sdpa_flash, encode, forward)"}));
}

TEST(BudgetCheck, FiveSamplesAreFiveCallsBesideTheFirst) {
  EXPECT_THAT(stats_of({a_row("a").calls(6).time_us(1).p50_us(1)}).check({.max_p50_us = 100.0}), IsEmpty());
  const auto violations = stats_of({a_row("a").calls(5).time_us(1).p50_us(1)}).check({.max_p50_us = 100.0});
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_THAT(violations[0].measured, HasSubstr("4 calls beside the first, min_samples is 5"));
}

TEST(BudgetCheck, TooFewSamplesMayBeAllowed) {
  const Stats stats = stats_of({a_row("a").calls(2).time_us(900).p50_us(900)});
  EXPECT_THAT(stats.check({.max_p50_us = 100.0, .allow_missing = true}), IsEmpty());
}

TEST(BudgetCheck, CallFlopsAreTheRowsMean) {
  const Stats stats = stats_of({a_row("a").calls(4).flops(401)});
  EXPECT_THAT(stats.check({.max_call_flops = 101}), IsEmpty());
  EXPECT_THAT(stats.check({.max_call_flops = 100}),
              ElementsAre(Violation{"a", "max_call_flops", "≤ 100 FLOP a call",
                                    "101 FLOP a call (sdpa_flash, encode, forward)"}));
}

TEST(BudgetCheck, TotalFlopsAreSummedOverTheSelection) {
  const Stats stats = stats_of({a_row("a").flops(600), a_row("b").flops(500)});
  EXPECT_THAT(stats.check({.max_total_flops = 1'100}), IsEmpty());
  EXPECT_THAT(stats.check({.max_total_flops = 1'099}),
              ElementsAre(Violation{"*", "max_total_flops", "≤ 1,099 FLOP", "1,100 FLOP"}));
}

TEST(BudgetCheck, StepBytesAreTheMeanOverTheSteps) {
  Stats stats = stats_of({a_row("a").bytes(600, 300), a_row("b").bytes(300)});
  stats.time.steps = 3;
  EXPECT_THAT(stats.check({.max_step_bytes = 400}), IsEmpty());
  EXPECT_THAT(stats.check({.max_step_bytes = 399}),
              ElementsAre(Violation{"*", "max_step_bytes", "≤ 399 bytes a step", "400 bytes a step"}));
}

TEST(BudgetCheck, WithoutStepsAllIsOneStep) {
  EXPECT_THAT(stats_of({a_row("a").bytes(600)}).check({.max_step_bytes = 599}), SizeIs(1));
}

TEST(BudgetCheck, SumWithAnUnknownPartIsAViolation) {
  const auto violations = stats_of({a_row("a").flops(6), a_row("b")}).check({.max_total_flops = 10});
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].measured, "unknown: 6 FLOP, without 1 of 2 rows whose figure is not known");
}

TEST(BudgetCheck, KnownPartAboveTheLimitIsAViolationEvenIfMissingIsAllowed) {
  const Stats stats = stats_of({a_row("a").flops(16), a_row("b")});
  EXPECT_THAT(stats.check({.max_total_flops = 10, .allow_missing = true}), SizeIs(1));
}

TEST(BudgetCheck, SumBeyond64BitsDoesNotWrap) {
  const Stats stats = stats_of({a_row("a").flops((Count{1} << 64) + 5)});
  EXPECT_THAT(stats.check({.max_total_flops = 10}), SizeIs(1));
}

TEST(BudgetCheck, PeakAndScoreBytesAreLimits) {
  const Stats stats = stats_of({a_row("a").peak(100).scores(50)});
  EXPECT_THAT(stats.check({.max_peak_bytes = 100, .max_score_bytes = 50}), IsEmpty());
  EXPECT_THAT(stats.check({.max_peak_bytes = 99, .max_score_bytes = 49}),
              ElementsAre(violates("a", "max_peak_bytes"), violates("a", "max_score_bytes")));
}

TEST(BudgetCheck, MemoryThatWasNotMeasuredIsAViolation) {
  EXPECT_THAT(stats_of({a_row("a")}).check({.max_peak_bytes = 99}), ElementsAre(violates("a", "max_peak_bytes")));
}

}  // namespace
}  // namespace headscope::report
