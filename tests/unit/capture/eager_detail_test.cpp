#include <gtest/gtest.h>

#include "eager_program.h"

namespace headscope::capture {
namespace {

using records::MaskState;
using test::boolean;
using test::half;
using test::Program;
using test::strided;
using test::t;
using test::turned;
using Kind = ElementwiseEvent::Kind;

constexpr std::uint64_t kScores = 1120;  // bytes of [2, 4, 5, 7]

Program begun() {
  Program p(true);
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  return p;
}

/// Softmax of the scores at `storage`, and PV.
Program& end(Program& p, StorageId storage) {
  p.softmax(t({2, 4, 5, 7}, storage), t({2, 4, 5, 7}, 50));
  return p.product(t({8, 5, 7}, 50), t({8, 7, 4}, 51), t({8, 5, 4}, 52));
}

TEST(EagerDetail, ChainWithoutOpsBetweenIsExactWithoutMask) {
  auto p = begun();
  end(p, 3);
  EXPECT_TRUE(p.call().materialized.exact);
  EXPECT_EQ(p.call().mask, MaskState::kNone);
  EXPECT_EQ(p.call().glue_ns, 0);
}

TEST(EagerDetail, ScaleBelongsToTheChainAndIsGlue) {
  auto p = begun();
  p.op(Kind::kArithmetic, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
  end(p, 4);
  EXPECT_EQ(p.call().glue_ns, 10);
  EXPECT_EQ(p.call().time_ns, 30);
  EXPECT_EQ(p.call().materialized.traffic_bytes, 6 * kScores);
  EXPECT_EQ(p.call().score_bytes, static_cast<std::int64_t>(3 * kScores));
  EXPECT_TRUE(p.call().materialized.exact);
}

TEST(EagerDetail, OpOnOtherTensorsIsNoPartOfTheChain) {
  auto p = begun();
  p.op(Kind::kArithmetic, t({2, 4, 5, 7}, 30), t({2, 4, 5, 7}, 31));
  EXPECT_EQ(p.role, ElementwiseRole::kNone);
  end(p, 3);
  EXPECT_EQ(p.call().glue_ns, 0);
}

TEST(EagerDetail, OpThatWasNotSeenLeavesTheMaskUnseenAndTheTrafficEstimated) {
  auto p = begun();
  end(p, 40);
  EXPECT_FALSE(p.call().materialized.exact);
  EXPECT_EQ(p.call().mask, MaskState::kUnseen);
}

TEST(EagerDetail, WithoutDetailElementwiseOpsAreIgnored) {
  Program p(false);
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({2, 1, 5, 7}, 5));
  EXPECT_EQ(p.role, ElementwiseRole::kNone);
}

TEST(EagerDetail, AddOfABroadcastTensorIsAMask) {
  auto p = begun();
  p.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({2, 1, 5, 7}, 5));
  EXPECT_EQ(p.role, ElementwiseRole::kMask);
}

TEST(EagerDetail, AddWithoutAColumnForEachKeyIsNoMask) {
  auto p = begun();
  p.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({2, 4, 5, 1}, 5));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
}

TEST(EagerDetail, ScaleByATensorOfTheMaskShapeIsNoMask) {
  auto p = begun();
  p.op(Kind::kArithmetic, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({2, 1, 5, 7}, 5));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
}

TEST(EagerDetail, CountedMaskIsTheCallsMask) {
  auto p = begun();
  p.op(Kind::kMaskedFill, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), boolean(t({5, 7}, 5)));
  p.mask(MaskState::kCounted, 200, 35);
  end(p, 4);
  EXPECT_EQ(p.call().mask, MaskState::kCounted);
  ASSERT_NE(p.call().mask_count, nullptr);
  EXPECT_EQ(p.call().mask_count->pairs, 200U);
  EXPECT_EQ(p.call().mask_bytes, 35U);
}

TEST(EagerDetail, MaskThatNobodyAnsweredIsOpaque) {
  auto p = begun();
  p.op(Kind::kWhere, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), boolean(t({1, 1, 5, 7}, 5)));
  end(p, 4);
  EXPECT_EQ(p.call().mask, MaskState::kOpaque);
}

/// T5: a position bias, then a mask.
Program two_masks(std::uint64_t first_pairs, std::uint64_t second_pairs) {
  auto p = begun();
  p.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({1, 4, 5, 7}, 5));
  p.mask(MaskState::kCounted, first_pairs, 1);
  p.op(Kind::kAdd, t({2, 4, 5, 7}, 4), t({2, 4, 5, 7}, 6), t({2, 1, 5, 7}, 7));
  p.mask(MaskState::kCounted, second_pairs, 2);
  end(p, 6);
  return p;
}

TEST(EagerDetail, BiasThatAdmitsAllPairsLeavesTheNextMaskCounted) {
  const auto p = two_masks(280, 150);
  EXPECT_EQ(p.call().mask, MaskState::kCounted);
  EXPECT_EQ(p.call().mask_count->pairs, 150U);
  EXPECT_EQ(p.call().mask_bytes, 3U);
}

TEST(EagerDetail, BiasAfterAMaskLeavesTheMaskCounted) { EXPECT_EQ(two_masks(150, 280).call().mask_count->pairs, 150U); }

TEST(EagerDetail, TwoMasksThatBothHidePairsAreOpaque) {
  const auto p = two_masks(150, 150);
  EXPECT_EQ(p.call().mask, MaskState::kOpaque);
  EXPECT_EQ(p.call().mask_count, nullptr);
}

TEST(EagerDetail, FillAfterTheSoftmaxIsNoMask) {
  auto p = begun();
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.op(Kind::kMaskedFill, t({2, 4, 5, 7}, 4), t({2, 4, 5, 7}, 5), boolean(t({5, 7}, 6)));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
}

TEST(EagerDetail, OutOfPlaceMaskedFillWritesAndReadsOneMoreTensorThanAMaskAddedInPlace) {
  auto filled = begun();
  filled.op(Kind::kMaskedFill, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), boolean(t({5, 7}, 5)));
  end(filled, 4);
  auto added = begun();
  added.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 3), t({5, 7}, 5));
  end(added, 3);
  EXPECT_EQ(filled.call().materialized.traffic_bytes - added.call().materialized.traffic_bytes, 2 * kScores);
  EXPECT_EQ(filled.call().score_bytes - added.call().score_bytes, static_cast<std::int64_t>(kScores));
}

TEST(EagerDetail, DropoutOnTheCpuIsLinkedButNotExact) {
  // The keep mask [2, 4, 5, 7] is written by ops that are not hooked (bernoulli_, div_).
  auto p = begun();
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.op(Kind::kArithmetic, t({2, 4, 5, 7}, 4), t({2, 4, 5, 7}, 6), t({2, 4, 5, 7}, 5));
  p.product(t({8, 5, 7}, 6), t({8, 7, 4}, 7), t({8, 5, 4}, 8));
  EXPECT_EQ(p.call().materialized.traffic_bytes, 7 * kScores);
  EXPECT_FALSE(p.call().materialized.exact);
  EXPECT_EQ(p.call().mask, MaskState::kNone);
}

TEST(EagerDetail, SinkColumnIsJoinedAndDroppedByOpsOfTheChain) {
  auto p = begun();
  p.op(Kind::kCopy, t({2, 4, 5, 7}, 3), t({2, 4, 5, 8}, 4));  // cat
  p.softmax(t({2, 4, 5, 8}, 4), t({2, 4, 5, 8}, 5));
  p.op(Kind::kCopy, strided({2, 4, 5, 7}, {160, 40, 8, 1}, 5), t({2, 4, 5, 7}, 6));  // [..., :-1]
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
  p.product(t({8, 5, 7}, 6), t({8, 7, 4}, 7), t({8, 5, 4}, 8));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_TRUE(p.call().materialized.exact);
}

TEST(EagerDetail, DebertaSumOfPositionScoresIsNoMask) {
  auto p = begun();
  p.product(t({8, 5, 3}, 1), turned(8, 9, 3, 10), t({8, 5, 9}, 11));
  p.op(Kind::kCopy, t({8, 5, 9}, 11), t({8, 5, 7}, 12));  // gather
  p.op(Kind::kAdd, t({8, 5, 7}, 3), t({8, 5, 7}, 13), t({8, 5, 7}, 12));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
  end(p, 13);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().extra_product_flops, 2U * 8 * 5 * 3 * 9);
  EXPECT_EQ(p.call().glue_ns, 20);
}

TEST(EagerDetail, MathPathCopiesKeysAndValuesForGroupedQueries) {
  // Hq8 Hkv2 S1024 D64 (pytorch#190523); the scale of K is no copy.
  Program p(true);
  const auto expanded = strided({1, 2, 4, 1024, 64}, {131072, 65536, 0, 64, 1}, 20);
  p.op(Kind::kCopy, expanded, t({1, 2, 4, 1024, 64}, 21));
  EXPECT_EQ(p.role, ElementwiseRole::kKeyValue);
  auto values = expanded;
  values.storage = 22;
  p.op(Kind::kCopy, values, t({1, 2, 4, 1024, 64}, 23));
  p.op(Kind::kArithmetic, t({1, 8, 1024, 64}, 24), t({1, 8, 1024, 64}, 25));
  p.op(Kind::kArithmetic, strided({1, 8, 64, 1024}, {524288, 65536, 1, 64}, 21), turned(8, 1024, 64, 26));
  p.product(t({8, 1024, 64}, 25), turned(8, 1024, 64, 26), t({8, 1024, 1024}, 27));
  p.softmax(t({1, 8, 1024, 1024}, 27), t({1, 8, 1024, 1024}, 28));
  p.product(t({8, 1024, 1024}, 28), t({8, 1024, 64}, 23), t({8, 1024, 64}, 29));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().materialized.kv_copy_bytes, 2U * 2'097'152);
  // S and P written and read, both copies written and read.
  EXPECT_EQ(p.call().materialized.traffic_bytes, 4U * 33'554'432 + 2U * 2 * 2'097'152);
}

TEST(EagerDetail, IndexSelectOfHeadsIsACopyOfTheKeys) {
  Program p(true);
  p.op(Kind::kCopy, t({2, 2, 7, 3}, 20), t({2, 4, 7, 3}, 2));
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  end(p, 3);
  EXPECT_EQ(p.call().materialized.kv_copy_bytes, 8U * 7 * 3 * 4);
}

TEST(EagerDetail, GrowingTheCacheIsNoCopyOfTheKeys) {
  Program p(true);
  p.op(Kind::kCopy, t({2, 4, 6, 3}, 20), t({2, 4, 7, 3}, 2));  // cat along the sequence
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  end(p, 3);
  EXPECT_EQ(p.call().materialized.kv_copy_bytes, 0U);
}

TEST(EagerDetail, UpcastOfTheKeysIsACopyButADowncastIsNot) {
  Program p(true);
  p.op(Kind::kArithmetic, t({2, 4, 7, 3}, 20), half(t({2, 4, 7, 3}, 21)));
  p.op(Kind::kArithmetic, half(t({2, 4, 7, 3}, 21)), t({2, 4, 7, 3}, 2));
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  end(p, 3);
  EXPECT_EQ(p.call().materialized.kv_copy_bytes, 8U * 7 * 3 * 4);
}

TEST(EagerDetail, MaskBuiltFromABoolOneIsAMaskCopyOfTheFirstCallThatUsesIt) {
  Program p(true);
  p.op(Kind::kWhere, {}, t({1, 1, 5, 7}, 20), boolean(t({1, 1, 5, 7}, 21)));
  EXPECT_EQ(p.role, ElementwiseRole::kMaskCopy);
  for (int layer = 0; layer < 2; ++layer) {
    p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
    p.op(Kind::kAdd, t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4), t({1, 1, 5, 7}, 20)).mask(MaskState::kOpaque, 0, 140);
    end(p, 4);
  }
  ASSERT_EQ(p.calls(), 2U);
  EXPECT_EQ(p.call(0).materialized.mask_copy_bytes, 140U);
  EXPECT_EQ(p.call(1).materialized.mask_copy_bytes, 0U);
}

TEST(EagerDetail, MaskOfAFusedCallHandsOutItsCopyOnce) {
  // Bool [1, 1, 1024, 1024] on the CPU's flash path (transformers#36217).
  Program p(true);
  p.op(Kind::kWhere, {}, t({1, 1, 1024, 1024}, 20), boolean(t({1, 1, 1024, 1024}, 21)));
  EXPECT_EQ(p.recogniser.take_mask_copy(t({1, 1, 1024, 1024}, 20)), 4'194'304U);
  EXPECT_EQ(p.recogniser.take_mask_copy(t({1, 1, 1024, 1024}, 20)), 0U);
}

TEST(EagerDetail, MaskMadeFromTwoNumbersIsACopyOfItsCondition) {
  // where(mask, 0, -inf) of scaled_dot_product_attention has no other tensor than the condition.
  Program p(true);
  p.op(Kind::kCopy, boolean(t({1, 1, 1024, 1024}, 21)), t({1, 1, 1024, 1024}, 20));
  EXPECT_EQ(p.recogniser.take_mask_copy(t({1, 1, 1024, 1024}, 20)), 4'194'304U);
}

TEST(EagerDetail, CopyAtAnAddressThatCameBackWithAnotherSizeIsNotHandedOut) {
  Program p(true);
  p.op(Kind::kCopy, t({2, 4, 7, 3}, 20), t({2, 4, 7, 3}, 21));
  EXPECT_EQ(p.recogniser.take_kv_copies(t({2, 4, 9, 3}, 21)), 0U);
}

TEST(EagerDetail, TensorOfTooManyAxesIsIgnored) {
  auto p = begun();
  TensorView many;
  many.dims = -1;
  many.storage = 3;
  p.op(Kind::kArithmetic, many, t({2, 4, 5, 7}, 4));
  EXPECT_EQ(p.role, ElementwiseRole::kNone);
}

}  // namespace
}  // namespace headscope::capture
