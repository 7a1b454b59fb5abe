#include "aggregate/aggregate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "aggregate/snapshot.h"
#include "headscope/stats.h"
#include "model/work.h"
#include "support/builders.h"

namespace headscope::aggregate {
namespace {

using records::Causal;
using records::FallbackReason;
using records::MaskState;
using test_support::a_call;
using test_support::CallBuilder;

constexpr LayerKey number(std::uint32_t value) { return {LayerKey::Kind::kNumber, value}; }
constexpr LayerKey label(std::uint32_t value) { return {LayerKey::Kind::kLabel, value}; }

void add(Aggregate& aggregate, const CallBuilder& builder, LayerKey layer = number(0), std::int64_t step = 0) {
  const records::AttentionCall call = builder.build();
  aggregate.add(model::cost(call, 1), layer, step);
}

Stats stats_of(const Aggregate& aggregate, const LayerInfoOf& layer_info = [](std::uint32_t) { return nullptr; }) {
  Stats stats;
  fill_stats(aggregate, layer_info, stats);
  return stats;
}

/// Stats of these calls, all in layer attention[0].
Stats stats_of(std::initializer_list<CallBuilder> calls, Wanted wanted = {}) {
  Aggregate aggregate(wanted);
  for (const CallBuilder& call : calls) {
    add(aggregate, call);
  }
  return stats_of(aggregate);
}

TEST(Aggregate, WithoutCallsTheTotalIsAbsentNotZero) { EXPECT_EQ(stats_of({}).total, Figures{}); }

TEST(Aggregate, SumsFlopsOverTheCallsOfARow) {
  const Stats stats = stats_of({a_call().shape(1, 12, 64, 64), a_call().shape(1, 12, 64, 64)});
  EXPECT_EQ(stats.attention_breakdown.at(0).flops, Count{2 * 12'582'912});
}

TEST(Aggregate, ModelFlopsLeaveOutWhatWasComputedAgain) {
  // P = 4, D = Dv = 4. Forward 64; the same again; backward 2·4·(12+8) = 160, of which 2·4·4 = 32 make QKᵀ again.
  const auto call = [] { return a_call().shape(1, 1, 2, 4); };
  const TimeSection time = stats_of({call(), call().direction(Direction::kRecompute), call().backward()}).time;
  EXPECT_EQ(time.hardware_flops, Count{64 + 64 + 160});
  EXPECT_EQ(time.model_flops, Count{64 + 160 - 32});
  EXPECT_DOUBLE_EQ(time.recompute_flops_share.value(), 64.0 / 288.0);
  EXPECT_DOUBLE_EQ(time.backward_recompute_flops_share.value(), 32.0 / 288.0);
}

TEST(Aggregate, ModelFlopsAreUnknownWhereFlopsAre) {
  const auto unknown = a_call().shape(1, 2, 8, 4).with([](auto& call) { call.lengths_unknown = true; });
  EXPECT_EQ(stats_of({unknown}).time.model_flops, std::nullopt);
}

TEST(Aggregate, CallsOfDifferentGeometryAreDifferentRows) {
  EXPECT_EQ(stats_of({a_call().shape(1, 2, 8, 4), a_call().shape(1, 2, 8, 5)}).attention_breakdown.size(), 2U);
}

TEST(Aggregate, LengthsThatVaryWithinARowAreARange) {
  const Stats stats = stats_of({a_call().shape(1, 2, 1, 4).kv_len(10), a_call().shape(1, 2, 1, 4).kv_len(13)});
  EXPECT_EQ(stats.attention_breakdown.at(0).kv_len, (Range{10, 13, 11.5}));
}

TEST(Aggregate, OneUnknownFigureMakesTheSumUnknown) {
  const auto unknown_lengths = a_call().shape(1, 2, 8, 4).with([](auto& call) { call.lengths_unknown = true; });
  const Stats stats = stats_of({a_call().shape(1, 2, 8, 4), unknown_lengths});
  EXPECT_EQ(stats.total.flops, std::nullopt);
}

TEST(Aggregate, OneUnknownFigureMakesTheHeadsUnknown) {
  const auto unknown_lengths = a_call().shape(1, 2, 8, 4).with([](auto& call) { call.lengths_unknown = true; });
  const Stats stats = stats_of({a_call().shape(1, 2, 8, 4), unknown_lengths});
  EXPECT_EQ(stats.heads.at(0).flops, std::nullopt);
}

TEST(Aggregate, AbsentFigureHasNoProvenance) {
  const Stats stats = stats_of({a_call().shape(1, 2, 8, 4)});
  EXPECT_FALSE(stats.total.provenance.contains("glue_ns"));
}

TEST(Aggregate, ProvenanceIsTheWeakestOfTheCalls) {
  const Stats stats =
      stats_of({a_call().shape(1, 2, 8, 4), a_call().shape(1, 2, 8, 4).mask(MaskState::kOpaque).mask_bytes(64)});
  EXPECT_EQ(stats.total.provenance.at("flops"), Provenance::kEstimated);
}

TEST(Aggregate, CausalityThatDiffersIsAbsent) {
  const Stats stats = stats_of({a_call().cross(), a_call().cross().causal(Causal::kUpperLeft)});
  EXPECT_EQ(stats.attention_breakdown.at(0).causal, std::nullopt);
}

TEST(Aggregate, CausalAlignmentIsNamed) {
  const Stats stats = stats_of({a_call().shape(1, 1, 2, 2).causal(Causal::kLowerRight)});
  EXPECT_EQ(stats.attention_breakdown.at(0).causal_alignment, "lower_right");
}

TEST(Aggregate, MasksThatDifferAreMixed) {
  const Stats stats = stats_of({a_call().cross(), a_call().cross().mask(MaskState::kOpaque)});
  EXPECT_EQ(stats.attention_breakdown.at(0).mask, "mixed");
}

TEST(Aggregate, FallbackReasonIsNamed) {
  const auto call = a_call().eager().with([](auto& record) { record.fallback = FallbackReason::kDropout; });
  EXPECT_EQ(stats_of({call}).attention_breakdown.at(0).fallback_reason, "dropout");
}

TEST(Aggregate, ScoreBytesAreTheLargestOfTheRow) {
  const auto with_scores = [](std::int64_t bytes) {
    return a_call().with([bytes](auto& call) { call.score_bytes = bytes; });
  };
  EXPECT_EQ(stats_of({with_scores(10), with_scores(30), with_scores(20)}).total.score_bytes, 30);
}

TEST(Aggregate, MemoryThatIsNotWantedIsAbsent) {
  const auto call = a_call().with([](auto& record) { record.peak_bytes = 10; });
  EXPECT_EQ(stats_of({call}, {.memory = false}).total.peak_bytes, std::nullopt);
}

TEST(Aggregate, OpWhoseTimeIsNotAttentionAloneIsMarked) {
  static const records::OpInfo op{"vllm::unified_attention", "vllm", records::Kernel::kFused, false};
  EXPECT_FALSE(stats_of({a_call(), a_call().op(op)}).total.time_is_attention);
}

TEST(Aggregate, TotalKeepsTheFirstCallOfEachRowOutOfItsQuantiles) {
  Aggregate aggregate({});
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    add(aggregate, a_call().time(10, 9'000), number(layer));
    add(aggregate, a_call().time(20, 50), number(layer));
  }
  EXPECT_EQ(stats_of(aggregate).total.time->max, Nanoseconds(50));
}

// Heads.

Count sum_of_heads(const Stats& stats, std::optional<Count> HeadRow::* figure) {
  Count sum = 0;
  for (const HeadRow& row : stats.heads) {
    sum += (row.*figure).value();
  }
  return sum;
}

/// 7 heads, so that nearly every figure leaves a remainder, with equal and unequal masks.
Stats stats_with_remainders() {
  const auto shape = a_call().shape(1, 7, 5, 3).with([](auto& call) { call.allocated_bytes = 1'003; });
  records::MaskCount unequal{.pairs = 28, .pairs_per_head = {1, 2, 3, 4, 5, 6, 7}, .used_keys = 5};
  return stats_of({CallBuilder(shape).time(0, 100), CallBuilder(shape).mask(unequal).mask_bytes(13).time(10, 23),
                   CallBuilder(shape).mask(unequal).time(20, 1'001)});
}

TEST(Heads, FlopsSumToTheRowsExactly) {
  const Stats stats = stats_with_remainders();
  EXPECT_EQ(sum_of_heads(stats, &HeadRow::flops), stats.total.flops);
}

TEST(Heads, BytesSumToTheRowsExactly) {
  const Stats stats = stats_with_remainders();
  EXPECT_EQ(sum_of_heads(stats, &HeadRow::bytes), stats.total.bytes);
}

TEST(Heads, AllocatedBytesSumToTheRowsExactly) {
  const Stats stats = stats_with_remainders();
  EXPECT_EQ(sum_of_heads(stats, &HeadRow::allocated_bytes), stats.total.allocated_bytes);
}

TEST(Heads, TimeSumsToTheRowsExactly) {
  const Stats stats = stats_with_remainders();
  Nanoseconds sum{};
  for (const HeadRow& row : stats.heads) {
    sum += row.time.value();
  }
  EXPECT_EQ(sum, Nanoseconds(1'124));
}

TEST(Heads, FlopsFollowTheAdmittedPairsOfEachHead) {
  records::MaskCount mask{.pairs = 4, .pairs_per_head = {1, 3}, .used_keys = 2};
  const Stats stats = stats_of({a_call().shape(1, 2, 2, 8).mask(mask)});
  // 2·P·(D+Dv) with P = 3.
  EXPECT_EQ(stats.heads.at(1).flops, Count{2 * 3 * 16});
}

TEST(Heads, QueryHeadsShareAKvHead) {
  const Stats stats = stats_of({a_call().shape(1, 8, 4, 4).kv_heads(2)});
  EXPECT_EQ(stats.heads.at(5).kv_head, 1);
}

TEST(Heads, RowsOfOneLayerWithDifferentHeadCountsAddUp) {
  const Stats stats = stats_of({a_call().shape(1, 2, 4, 4), a_call().shape(1, 3, 4, 4)});
  EXPECT_EQ(sum_of_heads(stats, &HeadRow::flops), stats.total.flops);
}

TEST(Heads, AreLeftOutWhenNotWanted) { EXPECT_TRUE(stats_of({a_call()}, {.per_head = false}).heads.empty()); }

TEST(Heads, UnknownHeadCountIsReportedNotShown) {
  const Stats stats = stats_of({a_call().with([](auto& call) { call.geometry.heads = 0; })});
  EXPECT_EQ(stats.diagnostics.not_observable.at(0).what, "heads of 1 calls");
}

// Layers.

TEST(Layers, UnnamedOnesAreCalledByTheirNumber) {
  Aggregate aggregate({});
  add(aggregate, a_call(), number(3));
  EXPECT_EQ(stats_of(aggregate).attention_breakdown.at(0).layer, "attention[3]");
}

TEST(Layers, RowsAreInTheOrderOfTheIndexThenTheDirection) {
  Aggregate aggregate({});
  add(aggregate, a_call().backward(), number(1));
  add(aggregate, a_call(), number(10));
  add(aggregate, a_call(), number(2));
  add(aggregate, a_call(), number(1));
  std::vector<std::string> order;
  for (const AttentionRow& row : stats_of(aggregate).attention_breakdown) {
    order.push_back(row.layer + " " + std::string(to_string(row.direction)));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"attention[1] forward", "attention[1] backward", "attention[2] forward",
                                             "attention[10] forward"}));
}

TEST(Layers, IndexOfALabelWithoutOneIsItsOrderOfAppearance) {
  const std::map<std::uint32_t, LayerInfo> infos{{7, {.name = "late"}}, {8, {.name = "early"}}};
  Aggregate aggregate({});
  add(aggregate, a_call().time(200, 1), label(7));
  add(aggregate, a_call().time(100, 1), label(8));
  const Stats stats = stats_of(aggregate, [&](std::uint32_t handle) { return &infos.at(handle); });
  EXPECT_EQ(stats.attention_breakdown.at(1).layer, "late");
  EXPECT_EQ(stats.attention_breakdown.at(1).layer_index, 1);
}

TEST(Layers, LabelsOfTheSameNameAreOneLayer) {
  const std::map<std::uint32_t, LayerInfo> infos{{7, {.name = "decoder"}}, {8, {.name = "decoder", .index = 4}}};
  Aggregate aggregate({});
  add(aggregate, a_call(), label(7));
  add(aggregate, a_call(), label(8));
  const Stats stats = stats_of(aggregate, [&](std::uint32_t handle) { return &infos.at(handle); });
  ASSERT_EQ(stats.attention_breakdown.size(), 1U);
  EXPECT_EQ(stats.attention_breakdown[0].layer_index, 4);
  EXPECT_EQ(stats.attention_breakdown[0].calls, 2U);
}

TEST(Layers, CallsBeyondTheLabelsShareARowAndAreCounted) {
  Aggregate aggregate({});
  add(aggregate, a_call(), LayerKey{});
  const Stats stats = stats_of(aggregate);
  EXPECT_EQ(stats.attention_breakdown.at(0).layer, "attention[*]");
  EXPECT_EQ(stats.diagnostics.calls_beyond_labels, 1U);
}

// Bounds and merging.

TEST(Bounds, MillionCallsMakeNoMoreRowsThanAThousand) {
  Aggregate aggregate({});
  const records::AttentionCall call = a_call().shape(1, 8, 128, 64).time(0, 5'000).build();
  const records::CostedCall costed = model::cost(call, 1);
  for (int i = 0; i < 1'000'000; ++i) {
    aggregate.add(costed, number(static_cast<std::uint32_t>(i % 100)), 0);
  }
  EXPECT_EQ(aggregate.rows().size(), 100U);
  EXPECT_EQ(aggregate.heads().size(), 100U);
  EXPECT_EQ(aggregate.calls_seen(), 1'000'000U);
}

TEST(Bounds, RowsBeyondTheLimitShareTheRestRow) {
  Aggregate aggregate({.per_head = false});
  for (std::uint32_t handle = 1; handle <= Aggregate::kMaxRows + 10; ++handle) {
    add(aggregate, a_call(), label(handle));
  }
  EXPECT_EQ(aggregate.rows().size(), Aggregate::kMaxRows + 1);
  EXPECT_EQ(aggregate.calls_beyond_labels(), 10U);
}

TEST(Bounds, CallsWithoutARowAreInTheTotalAndNotAttributed) {
  Aggregate aggregate({.per_head = false});
  for (std::int64_t dim = 1; dim <= static_cast<std::int64_t>(Aggregate::kMaxOtherRows) + 5; ++dim) {
    add(aggregate, a_call().shape(1, 1, 1, dim), LayerKey{});
  }
  const Stats stats = stats_of(aggregate);
  EXPECT_EQ(stats.total.calls, Aggregate::kMaxOtherRows + 5);
  EXPECT_EQ(stats.diagnostics.calls_seen - stats.diagnostics.calls_attributed, 5U);
}

TEST(Merging, AggregatesOfTwoThreadsEqualOneOfAllCalls) {
  Aggregate all({.keep_calls = 3});
  Aggregate left({.keep_calls = 3});
  Aggregate right({.keep_calls = 3});
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto call = a_call().id(i).shape(1, i % 3 + 1, 8, 4).time(100 * i, 37 * i % 11);
    add(all, call, number(i % 5));
    add(i % 2 == 0 ? left : right, call, number(i % 5));
  }
  left.merge(right);
  EXPECT_EQ(stats_of(left), stats_of(all));
}

// Kept calls.

std::vector<std::uint64_t> ids(const Stats& stats) {
  std::vector<std::uint64_t> ids;
  for (const CallRow& row : stats.calls) {
    ids.push_back(row.call_id);
  }
  return ids;
}

TEST(KeptCalls, AreTheLastOnes) {
  EXPECT_EQ(ids(stats_of({a_call().id(1), a_call().id(2), a_call().id(3)}, {.keep_calls = 2})),
            (std::vector<std::uint64_t>{2, 3}));
}

TEST(KeptCalls, SayTheirForwardCall) {
  const Stats stats = stats_of({a_call().id(2).backward().forward_id(1)}, {.keep_calls = 1});
  EXPECT_EQ(stats.calls.at(0).forward_call_id, 1U);
}

TEST(KeptCalls, ForwardHasNoForwardCall) {
  EXPECT_EQ(stats_of({a_call().id(2)}, {.keep_calls = 1}).calls.at(0).forward_call_id, std::nullopt);
}

}  // namespace
}  // namespace headscope::aggregate
