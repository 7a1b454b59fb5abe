#include "model/work.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace headscope::model {
namespace {

using records::Causal;
using records::MaskState;
using test_support::a_call;

// X = B·Hq·Sq·Sk·D.

TEST(Flops, FusedForwardIs4X) {
  // 4 · 12·64·64·64 (pytorch#195460).
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).build(), 1).flops, 12'582'912U);
}

TEST(Flops, FusedBackwardIs10X) {
  // 10 · 12·64·64·64 (pytorch#195460).
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).backward().build(), 1).flops, 31'457'280U);
}

TEST(Flops, FusedBackwardRepeats2XOfIt) {
  // 2 · 12·64·64·64 (flash-attention#741).
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).backward().build(), 1).recompute_flops, 6'291'456U);
}

TEST(Flops, EagerBackwardIs8X) {
  // 8 · 12·64·64·64 (flash-attention#741).
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).eager().backward().build(), 1).flops, 25'165'824U);
}

TEST(Flops, EagerBackwardRepeatsNothing) {
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).eager().backward().build(), 1).recompute_flops, 0U);
}

TEST(Flops, OddShapeForward) {
  // 4 · 2·5·9·9·4 (pytorch#134804).
  EXPECT_EQ(cost(a_call().shape(2, 5, 9, 4).build(), 1).flops, 12'960U);
}

TEST(Flops, RecomputeCountsAsAForward) {
  EXPECT_EQ(cost(a_call().shape(1, 12, 64, 64).direction(Direction::kRecompute).build(), 1).flops, 12'582'912U);
}

TEST(Flops, CausalCountsAdmittedPairsAlone) {
  // 8 · 524,800 · 2 · 128 (Megatron-LM#831).
  EXPECT_EQ(cost(a_call().shape(1, 8, 1024, 64).causal(Causal::kUpperLeft).build(), 1).flops, 1'074'790'400U);
}

TEST(Flops, DenseFiguresOfACausalCallAdmitEveryPair) {
  // 8 · 1024² · 2 · 128.
  EXPECT_EQ(cost(a_call().shape(1, 8, 1024, 64).causal(Causal::kUpperLeft).build(), 1).flops_dense, 2'147'483'648U);
}

TEST(Flops, LowerRightCausalWithAWiderValue) {
  // 34 pairs · 2 · (8 + 16) (xformers#1402).
  const auto call = a_call().shape(1, 1, 4, 8).kv_len(10).head_dim_v(16).causal(Causal::kLowerRight).build();
  EXPECT_EQ(cost(call, 1).flops, 1'632U);
}

TEST(Flops, UpperLeftCausalWithAWiderValue) {
  // 10 pairs · 2 · (8 + 16) (xformers#1402).
  const auto call = a_call().shape(1, 1, 4, 8).kv_len(10).head_dim_v(16).causal(Causal::kUpperLeft).build();
  EXPECT_EQ(cost(call, 1).flops, 480U);
}

TEST(Flops, FusedBackwardWithAWiderValueMakesQueryAndKeyProductsThreeTimes) {
  // 34 pairs · 2 · (3·8 + 2·16) = 34 · 112.
  const auto call = a_call().shape(1, 1, 4, 8).kv_len(10).head_dim_v(16).causal(Causal::kLowerRight).backward().build();
  EXPECT_EQ(cost(call, 1).flops, 3'808U);
}

TEST(Flops, RaggedBatchCountsRealLengths) {
  // 8 · (128² + 64²) · 2 · 128 (flashinfer#1638).
  EXPECT_EQ(cost(a_call().shape(1, 8, 1, 64).lengths({128, 64}, {128, 64}).build(), 1).flops, 41'943'040U);
}

TEST(Flops, RaggedCausalDenseFigureIsTheSumOfSquares) {
  const auto call = a_call().shape(1, 8, 1, 64).lengths({128, 64}, {128, 64}).causal(Causal::kLowerRight).build();
  EXPECT_EQ(cost(call, 1).flops_dense, 41'943'040U);
}

TEST(Flops, QueryHeadsCountHoweverFewKeyHeads) {
  // 4 · 8·16·16·4.
  EXPECT_EQ(cost(a_call().shape(1, 8, 16, 4).kv_heads(2).build(), 1).flops, 32'768U);
}

TEST(Flops, CountedMaskGivesThePairs) {
  // 11 pairs · 2 · (4 + 4).
  EXPECT_EQ(cost(a_call().shape(1, 2, 4, 4).mask({.pairs = 11}).build(), 1).flops, 176U);
}

TEST(Flops, CountedMaskIsModelled) {
  EXPECT_EQ(cost(a_call().mask({.pairs = 1}).build(), 1).flops_provenance, Provenance::kModelled);
}

TEST(Flops, UnseenMaskIsEstimated) {
  EXPECT_EQ(cost(a_call().mask(MaskState::kUnseen).build(), 1).flops_provenance, Provenance::kEstimated);
}

TEST(Flops, EagerBackwardForValuesAloneIsOneProduct) {
  // dV = Pᵀ·dO: 2 · 16·16 · 6.
  const auto call = a_call().shape(1, 1, 16, 4).head_dim_v(6).eager().backward().gradients({false, false, true});
  EXPECT_EQ(cost(call.build(), 1).flops, 3'072U);
}

TEST(Flops, EagerBackwardForQueriesAloneIsTwoProducts) {
  // dP and dQ: 2 · 16·16 · (6 + 4).
  const auto call = a_call().shape(1, 1, 16, 4).head_dim_v(6).eager().backward().gradients({true, false, false});
  EXPECT_EQ(cost(call.build(), 1).flops, 5'120U);
}

TEST(Flops, EagerBackwardForKeysAndValuesIsThreeProducts) {
  // dP, dK and dV: 2 · 16·16 · (6 + 4 + 6).
  const auto call = a_call().shape(1, 1, 16, 4).head_dim_v(6).eager().backward().gradients({false, true, true});
  EXPECT_EQ(cost(call.build(), 1).flops, 8'192U);
}

TEST(Flops, FusedBackwardMakesAllGradientsWhateverWasAsked) {
  // 10 · 16·16·4.
  const auto call = a_call().shape(1, 1, 16, 4).backward().gradients({true, false, false}).build();
  EXPECT_EQ(cost(call, 1).flops, 10'240U);
}

TEST(Flops, ProductsThatRanAreTheDenseFigure) {
  const auto call = a_call().shape(1, 1, 16, 4).eager().backward().with([](auto& c) { c.product_flops = 6'144; });
  EXPECT_EQ(cost(call.build(), 1).flops_dense, 6'144U);
}

TEST(Flops, ProductsThatRanAreScaledByTheAdmittedPairs) {
  // 136 of 256 pairs: 6,144 · 136 / 256.
  const auto call = a_call().shape(1, 1, 16, 4).eager().backward().mask({.pairs = 136}).with([](auto& c) {
    c.product_flops = 6'144;
  });
  EXPECT_EQ(cost(call.build(), 1).flops, 3'264U);
}

TEST(Flops, ProductsThatRanAgreeWithTheFormulaOfAllGradients) {
  const auto builder = a_call().shape(1, 1, 16, 4).eager().backward().mask({.pairs = 136});
  auto with_products = builder;
  with_products.with([](auto& c) { c.product_flops = 8 * 16 * 16 * 4; });
  EXPECT_EQ(cost(with_products.build(), 1).flops, cost(builder.build(), 1).flops);
}

TEST(Flops, FurtherProductsOfTheChainAreAdded) {
  // 4·16·16·4 + 500.
  const auto call = a_call().shape(1, 1, 16, 4).eager().with([](auto& c) { c.extra_product_flops = 500; }).build();
  EXPECT_EQ(cost(call, 1).flops, 4'596U);
}

TEST(Flops, UnknownLengthsLeaveThemUnknown) {
  const auto call = a_call().with([](auto& c) { c.lengths_unknown = true; }).build();
  EXPECT_EQ(cost(call, 1).flops, std::nullopt);
}

TEST(Flops, UnknownLengthsLeaveTheRepeatedPartOfABackwardUnknown) {
  const auto call = a_call().backward().with([](auto& c) { c.lengths_unknown = true; }).build();
  EXPECT_EQ(cost(call, 1).recompute_flops, std::nullopt);
}

TEST(Flops, FigureBeyond64BitsIsUnknownNotCutOff) {
  // 2³⁰ · 2³⁰ pairs · 4 · 64 = 2⁶⁸.
  const auto call = a_call().shape(1, 1, std::int64_t{1} << 30, 64).build();
  EXPECT_EQ(cost(call, 1).flops, std::nullopt);
}

TEST(Flops, PairsOfThatFigureStayKnown) {
  const auto call = a_call().shape(1, 1, std::int64_t{1} << 30, 64).build();
  EXPECT_EQ(cost(call, 1).pairs, std::uint64_t{1} << 60);
}

TEST(Flops, LargestFigureBelow64BitsIsExact) {
  // 2²⁹ · 2²⁹ pairs · 2 · (8 + 8) = 2⁶³.
  const auto call = a_call().shape(1, 1, std::int64_t{1} << 29, 8).build();
  EXPECT_EQ(cost(call, 1).flops, std::uint64_t{1} << 63);
}

TEST(Flops, EmptyBatchDoesNothing) { EXPECT_EQ(cost(a_call().shape(0, 8, 16, 4).build(), 1).flops, 0U); }

TEST(Work, HeadsWeighWhatTheirMaskAdmits) {
  const auto call = a_call().shape(1, 2, 4, 8).mask({.pairs = 12, .pairs_per_head = {4, 8}}).build();
  EXPECT_EQ(cost(call, 1).head_weights, &call.mask_count->pairs_per_head);
}

TEST(Work, HeadsOfOneMaskWeighTheSame) {
  EXPECT_EQ(cost(a_call().shape(1, 2, 4, 8).mask({.pairs = 12}).build(), 1).head_weights, nullptr);
}

TEST(Work, PhaseComesWithTheCost) { EXPECT_EQ(cost(a_call().q_len(1).kv_len(50).build(), 1).phase, Phase::kDecode); }

TEST(Flops, RecomputeThatStoppedBeforePvHasTheScoresAlone) {
  // 6 pairs (2 queries, 3 keys) of 1 head, D = 4: 2·6·4.
  const auto call = a_call().eager().q_len(2).kv_len(3).with([](auto& c) {
    c.geometry.head_dim = 4;
    c.geometry.head_dim_v = 5;
    c.scores_only = true;
  });
  EXPECT_EQ(cost(call.build(), 1).flops, 48U);
}

}  // namespace
}  // namespace headscope::model
