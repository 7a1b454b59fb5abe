#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "aggregate/aggregate.h"
#include "aggregate/line_fit.h"
#include "aggregate/snapshot.h"
#include "model/work.h"
#include "support/builders.h"

namespace headscope::aggregate {
namespace {

using records::Causal;
using test_support::a_call;
using test_support::CallBuilder;

Stats stats_of(const std::vector<CallBuilder>& calls) {
  Aggregate aggregate({});
  for (const CallBuilder& builder : calls) {
    const records::AttentionCall call = builder.build();
    aggregate.add(model::cost(call, 1), {LayerKey::Kind::kNumber, 0}, 0);
  }
  Stats stats;
  fill_stats(aggregate, [](std::uint32_t) -> const LayerInfo* { return nullptr; }, stats);
  return stats;
}

const PhaseRow& phase(const Stats& stats, Phase wanted) {
  return *std::ranges::find(stats.phases, wanted, &PhaseRow::phase);
}

TEST(Phases, MixedBatchIsDividedByPairs) {
  // A prefill of 10 (55 pairs) and a decode over 45 keys (45 pairs).
  const Stats stats = stats_of({a_call().lengths({10, 1}, {10, 45}).causal(Causal::kLowerRight).time(0, 1000)});
  ASSERT_EQ(stats.phases.size(), 2U);
  EXPECT_EQ(phase(stats, Phase::kPrefill).time, Nanoseconds(550));
  EXPECT_EQ(phase(stats, Phase::kDecode).time, Nanoseconds(450));
  EXPECT_EQ(phase(stats, Phase::kPrefill).tokens, Count{10});
  EXPECT_EQ(phase(stats, Phase::kDecode).sequences, Count{1});
  EXPECT_EQ(phase(stats, Phase::kDecode).time_provenance, Provenance::kModelled);
  EXPECT_EQ(*phase(stats, Phase::kPrefill).flops + *phase(stats, Phase::kDecode).flops, *stats.total.flops);
  EXPECT_EQ(*phase(stats, Phase::kPrefill).bytes + *phase(stats, Phase::kDecode).bytes, *stats.total.bytes);
}

TEST(Phases, OneOfAllCallsIsMeasured) {
  const Stats stats = stats_of({a_call().shape(2, 1, 10, 1).causal(Causal::kUpperLeft).time(0, 7)});
  ASSERT_EQ(stats.phases.size(), 1U);
  EXPECT_EQ(stats.phases[0].sequences, Count{2});
  EXPECT_EQ(stats.phases[0].tokens, Count{20});
  EXPECT_EQ(stats.phases[0].time_provenance, Provenance::kMeasured);
}

TEST(Positions, DecodeStepsThatGrowByALineGiveItsSlope) {
  std::vector<CallBuilder> calls;
  for (std::int64_t keys = 100; keys < 2000; ++keys) {
    calls.push_back(a_call().q_len(1).kv_len(keys).time(keys, 5000 + 7 * keys));
  }
  calls.push_back(a_call().id(99).q_len(1).kv_len(500).time(1, 1'000'000));
  const Stats stats = stats_of(calls);
  // All layers together, then the layer.
  ASSERT_EQ(stats.positions.size(), 2U);
  const PositionSeries& all = stats.positions[0];
  EXPECT_EQ(all.layer, std::nullopt);
  EXPECT_EQ(all.axis, PositionAxis::kKeyLength);
  ASSERT_TRUE(all.fit);
  EXPECT_NEAR(all.fit->ns_per_1000_tokens, 7000.0, 140.0);
  ASSERT_EQ(all.outliers.size(), 1U);
  EXPECT_EQ(all.outliers[0].call_id, 99U);
  EXPECT_EQ(all.outliers[0].kv_len, 500);
  std::uint64_t calls_in_bins = 0;
  for (const PositionBin& bin : all.bins) {
    calls_in_bins += bin.calls;
    EXPECT_GE(bin.kv_len->min, bin.first);
    EXPECT_LE(bin.kv_len->max, *bin.last);
  }
  EXPECT_EQ(calls_in_bins, 1901U);
}

TEST(Positions, PrefillTimeIsSpreadAndNothingIsLost) {
  const Stats stats = stats_of({a_call().shape(1, 1, 100, 8).causal(Causal::kUpperLeft).time(0, 1001),
                                a_call().shape(1, 1, 37, 8).causal(Causal::kUpperLeft).time(2000, 13)});
  const PositionSeries& series = stats.positions.at(0);
  EXPECT_EQ(series.axis, PositionAxis::kQueryBlock);
  EXPECT_EQ(series.provenance, Provenance::kModelled);
  Nanoseconds total{};
  Count tokens = 0;
  for (const PositionBin& bin : series.bins) {
    total += bin.total;
    tokens += bin.tokens;
    EXPECT_EQ(bin.p50, std::nullopt);
  }
  EXPECT_EQ(total, Nanoseconds(1014));
  EXPECT_EQ(tokens, Count{137});
  EXPECT_FALSE(series.fit);
}

TEST(Positions, BackwardsAndUntimedCallsHaveNone) {
  EXPECT_TRUE(stats_of({a_call().shape(1, 1, 9, 8).backward().time(0, 5),
                        a_call().shape(1, 1, 9, 8).with([](auto& call) { call.time_ns = -1; })})
                  .positions.empty());
}

TEST(Requests, PassesAreThoseOfALayerAndTokensOfTheBatch) {
  // A prefill of 4 prompts of 10, then 3 steps of 4 tokens.
  std::vector<CallBuilder> calls = {a_call().shape(4, 1, 10, 1).causal(Causal::kUpperLeft).time(0, 100)};
  for (std::int64_t step = 0; step < 3; ++step) {
    calls.push_back(a_call().shape(4, 1, 1, 1).kv_len(11 + step).time(200 + step, 20));
  }
  const Stats stats = stats_of(calls);
  ASSERT_TRUE(stats.requests);
  EXPECT_EQ(stats.requests->prompts, Count{4});
  EXPECT_EQ(stats.requests->prompt_tokens, Count{40});
  EXPECT_EQ(stats.requests->generated_tokens, Count{12});
  EXPECT_EQ(stats.requests->to_first_token, Nanoseconds(100));
  EXPECT_EQ(stats.requests->between_tokens, Nanoseconds(20));
  EXPECT_EQ(stats.requests->per_token, Nanoseconds(5));
}

TEST(Requests, TrainingHasNone) { EXPECT_FALSE(stats_of({a_call().shape(1, 1, 9, 8).time(0, 5)}).requests); }

TEST(LineFit, WeighsItsPoints) {
  // Two points of weight 1 on y = x pull no harder than one of weight 2.
  const std::vector<LinePoint> points = {{0, 0, 1}, {2, 2, 1}, {2, 4, 2}};
  const auto line = fit_line(points);
  ASSERT_TRUE(line);
  EXPECT_DOUBLE_EQ(line->slope, 5.0 / 3.0);
  EXPECT_DOUBLE_EQ(line->intercept, 0.0);
  EXPECT_FALSE(fit_line(std::vector<LinePoint>{{1, 1, 1}, {1, 2, 1}}));
}

}  // namespace
}  // namespace headscope::aggregate
