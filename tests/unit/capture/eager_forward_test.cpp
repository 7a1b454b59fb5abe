#include <gtest/gtest.h>

#include "eager_program.h"

namespace headscope::capture {
namespace {

using records::Geometry;
using test::Program;
using test::strided;
using test::t;
using test::turned;

// Sequences as torch 2.13 dispatches them, with B2 H4 Sq5 Sk7 D3 Dv4 unless said; storages are numbered.

/// softmax(q @ k.transpose(-2, -1)) @ v with the scores in one storage.
Program plain() {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  return p;
}

TEST(EagerForward, ProductSoftmaxProductIsOneCall) { EXPECT_EQ(plain().calls(), 1U); }

TEST(EagerForward, GeometryComesFromTheSoftmaxAndTheProducts) {
  EXPECT_EQ(plain().call().geometry, (Geometry{2, 4, 4, 5, 7, 3, 4}));
}

TEST(EagerForward, OperandsAreThoseOfTheProducts) {
  const auto p = plain();
  EXPECT_EQ(p.call().q.elements, 120U);
  EXPECT_EQ(p.call().k.elements, 168U);
  EXPECT_EQ(p.call().v.elements, 224U);
  EXPECT_EQ(p.call().out.elements, 160U);
}

TEST(EagerForward, TimeIsThatOfTheThreeOpsAndNotBetweenThem) {
  const auto p = plain();
  EXPECT_EQ(p.call().time_ns, 30);
  EXPECT_EQ(p.call().end_ns - p.call().start_ns, 40);
  EXPECT_EQ(p.call().glue_ns, -1);
}

TEST(EagerForward, ProbabilitiesAreTheSoftmaxOutputThatAutogradSaves) {
  EXPECT_EQ(plain().finished.at(0).probabilities, 4U);
}

TEST(EagerForward, ScoresAndProbabilitiesAreWrittenOnceAndReadOnce) {
  // 280 elements, 1,120 bytes: S written and read, P written and read.
  EXPECT_EQ(plain().call().materialized.traffic_bytes, 4U * 1120);
  EXPECT_EQ(plain().call().score_bytes, 2 * 1120);
}

TEST(EagerForward, WithoutDetailTheTrafficIsNotExactAndTheMaskUnseen) {
  EXPECT_FALSE(plain().call().materialized.exact);
  EXPECT_EQ(plain().call().mask, records::MaskState::kUnseen);
}

TEST(EagerForward, ScaledCopyOfTheScoresIsLinkedByShapeAndCountsOneMoreTensor) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 9), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().materialized.traffic_bytes, 6U * 1120);
  EXPECT_EQ(p.call().score_bytes, 3 * 1120);
}

TEST(EagerForward, DropoutCopyOfTheProbabilitiesIsLinkedByShape) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 10), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.calls(), 1U);
}

TEST(EagerForward, BloomViewsItsThreeAxisProductWithFourAxes) {
  Program p;
  p.product(t({8, 6, 6}, 1), turned(8, 6, 6, 2), t({8, 6, 6}, 3));  // baddbmm
  p.softmax(t({2, 4, 6, 6}, 4), t({2, 4, 6, 6}, 5));
  p.product(t({8, 6, 6}, 6), t({8, 6, 6}, 7), t({8, 6, 6}, 8));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry, (Geometry{2, 4, 4, 6, 6, 6, 6}));
}

TEST(EagerForward, ThreeAxisSoftmaxCountsTheBatchAxisAsHeads) {
  // nn.MultiheadAttention with need_weights.
  Program p;
  p.product(strided({8, 5, 2}, {2, 16, 1}, 1), strided({8, 2, 5}, {2, 1, 16}, 2), t({8, 5, 5}, 3));
  p.softmax(t({8, 5, 5}, 3), t({8, 5, 5}, 4));
  p.product(t({8, 5, 5}, 4), strided({8, 5, 2}, {2, 16, 1}, 2, 80), t({8, 5, 2}, 5));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry, (Geometry{1, 8, 8, 5, 5, 2, 2}));
}

TEST(EagerForward, GroupedEinsumShowsItsKeyValueHeads) {
  // bgtqd,bgkd->bgtqk with 2 groups of 3 heads: the product's rows hold a group.
  Program p;
  p.product(t({4, 15, 3}, 1), turned(4, 7, 3, 2), t({4, 15, 7}, 3));
  p.softmax(t({2, 2, 3, 5, 7}, 3), t({2, 2, 3, 5, 7}, 4));
  p.product(t({4, 15, 7}, 4), t({4, 7, 4}, 5), t({4, 15, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry, (Geometry{2, 6, 2, 5, 7, 3, 4}));
}

TEST(EagerForward, GroupedEinsumWithScaledScoresIsLinkedByShape) {
  Program p;
  p.product(t({4, 15, 3}, 1), turned(4, 7, 3, 2), t({4, 15, 7}, 3));
  p.softmax(t({2, 2, 3, 5, 7}, 8), t({2, 2, 3, 5, 7}, 4));
  p.product(t({4, 15, 7}, 4), t({4, 7, 4}, 5), t({4, 15, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.kv_heads, 2);
}

TEST(EagerForward, QueriesBeforeHeadsAreFoundByTheStrideOfTheProduct) {
  // bqhd,bkhd->bqhk: the softmax sees [B, Sq, H, Sk], a view of the product's [B·H, Sq, Sk].
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(strided({2, 5, 4, 7}, {140, 7, 35, 1}, 3), strided({2, 5, 4, 7}, {140, 7, 35, 1}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry, (Geometry{2, 4, 4, 5, 7, 3, 4}));
}

TEST(EagerForward, SinkColumnIsNoKey) {
  // gpt-oss: a column is joined before the softmax and dropped after it.
  Program p;
  p.product(t({8, 6, 6}, 1), turned(8, 6, 6, 2), t({8, 6, 6}, 3));
  p.softmax(t({2, 4, 6, 7}, 4), t({2, 4, 6, 7}, 5));
  p.product(t({8, 6, 6}, 6), t({8, 6, 6}, 7), t({8, 6, 6}, 8));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.kv_len, 6);
}

TEST(EagerForward, ValueDimMayDifferFromHeadDim) {
  // DeepSeek-V3.
  Program p;
  p.product(t({8, 6, 10}, 1), turned(8, 6, 10, 2), t({8, 6, 6}, 3));
  p.softmax(t({2, 4, 6, 6}, 4), t({2, 4, 6, 6}, 5));
  p.product(t({8, 6, 6}, 5), t({8, 6, 6}, 7), t({8, 6, 6}, 8));
  EXPECT_EQ(p.call().geometry, (Geometry{2, 4, 4, 6, 6, 10, 6}));
}

TEST(EagerForward, DebertaPositionScoresAreFurtherProductsOfTheCall) {
  // c2c, c2p (shares Q) and p2c (shares no storage: K was scaled into a copy); 8 positions.
  Program p;
  p.product(t({8, 6, 3}, 1), turned(8, 6, 3, 2), t({8, 6, 6}, 3));
  p.product(t({8, 6, 3}, 1), turned(8, 8, 3, 4), t({8, 6, 8}, 5));
  p.product(t({8, 6, 3}, 6), turned(8, 8, 3, 7), t({8, 6, 8}, 8));
  p.softmax(t({2, 4, 6, 6}, 9), t({2, 4, 6, 6}, 10));
  p.product(t({8, 6, 6}, 11), t({8, 6, 3}, 12), t({8, 6, 3}, 13));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().extra_product_flops, 2U * (2 * 8 * 6 * 3 * 8));
  EXPECT_EQ(p.call().time_ns, 50);
  EXPECT_EQ(p.call().q.elements, 144U);
}

TEST(EagerForward, ConformerPositionScoresBeforeTheProductAreAFurtherProduct) {
  // 19 positions back and forth: 37 columns.
  Program p;
  p.product(strided({4, 19, 6}, {6, 24, 1}, 1), strided({4, 6, 37}, {6, 1, 24}, 2), t({4, 19, 37}, 3));
  p.product(strided({4, 19, 6}, {6, 24, 1}, 4), strided({4, 6, 19}, {6, 1, 24}, 5), t({4, 19, 19}, 6));
  p.softmax(t({1, 4, 19, 19}, 7), t({1, 4, 19, 19}, 8));
  p.product(t({4, 19, 19}, 9), strided({4, 19, 6}, {6, 24, 1}, 10), t({4, 19, 6}, 11));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().extra_product_flops, 2U * 4 * 19 * 6 * 37);
}

TEST(EagerForward, PositionScoresOfTheScoresShapeDoNotReplaceTheFirstProduct) {
  Program p;
  p.product(t({8, 6, 3}, 1), turned(8, 6, 3, 2), t({8, 6, 6}, 3));
  p.product(t({8, 6, 3}, 4), strided({8, 3, 6}, {0, 1, 3}, 5), t({8, 6, 6}, 6));
  p.softmax(t({2, 4, 6, 6}, 9), t({2, 4, 6, 6}, 10));
  p.product(t({8, 6, 6}, 10), t({8, 6, 3}, 12), t({8, 6, 3}, 13));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().k.elements, 144U);
}

TEST(EagerForward, StorageDecidesBetweenTwoProductsOfOneShape) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.product(t({8, 5, 2}, 11), turned(8, 7, 2, 12), t({8, 5, 7}, 13));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.head_dim, 3);
}

TEST(EagerForward, WithoutStorageTheMostRecentProductIsTaken) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.product(t({8, 5, 2}, 11), turned(8, 7, 2, 12), t({8, 5, 7}, 13));
  p.softmax(t({2, 4, 5, 7}, 20), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.head_dim, 2);
}

TEST(EagerForward, TwoInterleavedAttentionsOfOtherShapesAreTwoCalls) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.product(t({4, 9, 3}, 11), turned(4, 6, 3, 12), t({4, 9, 6}, 13));
  p.softmax(t({2, 4, 5, 7}, 20), t({2, 4, 5, 7}, 4));
  p.softmax(t({2, 2, 9, 6}, 21), t({2, 2, 9, 6}, 14));
  p.product(t({8, 5, 7}, 22), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  p.product(t({4, 9, 6}, 23), t({4, 6, 4}, 15), t({4, 9, 4}, 16));
  ASSERT_EQ(p.calls(), 2U);
  EXPECT_EQ(p.call(0).geometry.q_len, 5);
  EXPECT_EQ(p.call(1).geometry.q_len, 9);
}

TEST(EagerForward, TwoInterleavedAttentionsOfOneShapeAreTwoCallsWithoutFurtherProducts) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.product(t({8, 5, 3}, 11), turned(8, 7, 3, 12), t({8, 5, 7}, 13));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.softmax(t({2, 4, 5, 7}, 13), t({2, 4, 5, 7}, 14));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  p.product(t({8, 5, 7}, 14), t({8, 7, 4}, 15), t({8, 5, 4}, 16));
  ASSERT_EQ(p.calls(), 2U);
  EXPECT_EQ(p.call(0).extra_product_flops + p.call(1).extra_product_flops, 0U);
}

TEST(EagerForward, ScoresInAddressOfAnEarlierProductAreNotTakenForIt) {
  // The first product's tensor is gone; the second one's lies at its address.
  Program p;
  p.product(t({8, 5, 2}, 1), turned(8, 7, 2, 2), t({8, 5, 7}, 3));
  p.product(t({8, 5, 3}, 4), turned(8, 7, 3, 5), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 6));
  p.product(t({8, 5, 7}, 6), t({8, 7, 4}, 7), t({8, 5, 4}, 8));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.head_dim, 3);
}

TEST(EagerForward, ValuesInsideTheKeysOverlap) {
  Program p;
  p.product(t({8, 5, 6}, 1), turned(8, 7, 6, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), strided({8, 7, 4}, {42, 6, 1}, 2), t({8, 5, 4}, 6));
  EXPECT_EQ(p.call().kv_overlap_bytes, 8U * 7 * 4 * 4);
}

TEST(EagerForward, UnmeasuredMemoryStaysUnknown) {
  EXPECT_EQ(plain().call().allocated_bytes, -1);
  EXPECT_EQ(plain().call().peak_bytes, -1);
}

TEST(EagerForward, AllocationsAddUpAndThePeakHoldsTheTensorsThatTheOpReads) {
  Program p;
  p.memory(1120, 1120).product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.memory(1120, 1120).softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.memory(640, 700).product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.call().allocated_bytes, 1120 + 1120 + 640);
  EXPECT_EQ(p.call().peak_bytes, 1120 + 1120);
}

TEST(EagerForward, ScoreBytesOfTheMathPathAreThoseOfTwoMatrices) {
  // B1 H8 S1024 D64: 33,554,432 bytes for each S×S tensor.
  Program p;
  p.product(t({8, 1024, 64}, 1), turned(8, 1024, 64, 2), t({8, 1024, 1024}, 3));
  p.softmax(t({1, 8, 1024, 1024}, 3), t({1, 8, 1024, 1024}, 4));
  p.product(t({8, 1024, 1024}, 4), t({8, 1024, 64}, 5), t({8, 1024, 64}, 6));
  EXPECT_EQ(p.call().score_bytes, 2 * 33'554'432);
}

}  // namespace
}  // namespace headscope::capture
