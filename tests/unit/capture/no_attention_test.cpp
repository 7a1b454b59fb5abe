#include <gtest/gtest.h>

#include "eager_program.h"

namespace headscope::capture {
namespace {

using test::Program;
using test::t;
using test::turned;

TEST(NoAttention, SameStorageWithAnotherShapeIsNoLink) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 9}, 3), t({2, 4, 5, 9}, 4));
  p.product(t({8, 5, 9}, 4), t({8, 9, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, ProductIsConsumedByOneSoftmax) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 7));
  p.product(t({8, 5, 7}, 7), t({8, 7, 4}, 8), t({8, 5, 4}, 9));
  EXPECT_EQ(p.calls(), 1U);
}

TEST(NoAttention, RouterSoftmaxIsNoAttention) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 4, 3, 2), t({8, 5, 4}, 3));
  p.softmax(t({40, 4}, 9), t({40, 4}, 4));
  p.product(t({8, 5, 4}, 11), t({8, 4, 6}, 5), t({8, 5, 6}, 6));
  EXPECT_EQ(p.calls(), 0U);
  EXPECT_EQ(p.recogniser.unfinished(), 0U);
}

TEST(NoAttention, ClassifierSoftmaxWithoutProductsIsNoAttention) {
  Program p;
  p.softmax(t({2, 5, 100}, 1), t({2, 5, 100}, 2));
  p.product(t({2, 5, 100}, 2), t({2, 100, 8}, 3), t({2, 5, 8}, 4));
  p.flush();
  EXPECT_EQ(p.calls(), 0U);
  EXPECT_EQ(p.recogniser.unfinished(), 0U);
}

TEST(NoAttention, ProductOfABackwardPassIsNoScoreOfTheNextForward) {
  Program p;
  p.enter_backward().product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.leave_backward().softmax(t({2, 4, 5, 7}, 9), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, RotaryAnglesStartNoAttention) {
  // [B, D/2, 1] @ [B, 1, S], then a softmax of that very shape.
  Program p;
  p.product(t({2, 3, 1}, 1), t({2, 1, 6}, 2), t({2, 3, 6}, 3));
  p.softmax(t({2, 3, 6}, 3), t({2, 3, 6}, 4));
  p.product(t({2, 3, 6}, 4), t({2, 6, 5}, 5), t({2, 3, 5}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, SoftmaxOverAnotherAxisIsNoAttention) {
  Program p;
  p.product(t({8, 7, 3}, 1), turned(8, 7, 3, 2), t({8, 7, 7}, 3));
  p.softmax(t({2, 4, 7, 7}, 3), t({2, 4, 7, 7}, 4), 2);
  p.product(t({8, 7, 7}, 4), t({8, 7, 4}, 5), t({8, 7, 4}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, TwoProductsWithoutSoftmaxAreNoAttention) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.product(t({8, 5, 7}, 3), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, ChainWithoutSecondProductIsCountedUnfinished) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.flush();
  EXPECT_EQ(p.recogniser.unfinished(), 1U);
}

TEST(NoAttention, ChainsBeyondTheTableAreCountedUnfinished) {
  Program p;
  for (StorageId i = 0; i < 10; ++i) {
    p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 10 + 2 * i));
    p.softmax(t({2, 4, 5, 7}, 10 + 2 * i), t({2, 4, 5, 7}, 11 + 2 * i));
  }
  p.flush();
  EXPECT_EQ(p.recogniser.unfinished(), 10U);
}

TEST(NoAttention, ProductWithMoreThanThreeAxesOrNoElementsIsIgnored) {
  Program p;
  p.product(t({0, 5, 3}, 1), turned(0, 7, 3, 2), t({0, 5, 7}, 3));
  p.product(t({2, 4, 5, 3}, 1), t({2, 4, 3, 7}, 2), t({2, 4, 5, 7}, 3));
  p.softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  p.product(t({8, 5, 7}, 4), t({8, 7, 4}, 5), t({8, 5, 4}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, RouterSoftmaxBackwardIsNoAttention) {
  Program p;
  p.softmax_backward(t({12, 4}, 21), t({12, 4}, 4), t({12, 4}, 22));
  p.flush();
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, BackwardOfLinearAttentionIsNoAttention) {
  // softmax(q) @ s, then s = softmax(k)ᵀ @ v: k's product with ds has the shape of dS @ K, but not its storage.
  Program p;
  p.product(turned(8, 12, 8, 4), t({8, 12, 8}, 20), t({8, 8, 8}, 30));
  p.product(t({8, 12, 8}, 20), turned(8, 8, 8, 5), t({8, 12, 8}, 21));
  p.softmax_backward(t({2, 4, 12, 8}, 21), t({2, 4, 12, 8}, 4), t({2, 4, 12, 8}, 22));
  p.product(t({8, 12, 8}, 6), t({8, 8, 8}, 30), t({8, 12, 8}, 31));
  p.product(t({8, 8, 8}, 30), turned(8, 12, 8, 7), t({8, 8, 12}, 32));
  p.flush();
  EXPECT_EQ(p.calls(), 0U);
}

TEST(NoAttention, RecomputeThatStoppedBeforePvDoesNotTakeDvForIt) {
  // A checkpoint stops once P is saved; with as many queries as keys, dV = Pᵀ dO has the shape of PV.
  Program p;
  p.enter_backward();
  p.product(t({4, 8, 3}, 1), turned(4, 8, 3, 2), t({4, 8, 8}, 3)).softmax(t({4, 8, 8}, 3), t({4, 8, 8}, 4));
  p.product(turned(4, 8, 8, 4), t({4, 8, 3}, 5), t({4, 8, 3}, 6));
  EXPECT_EQ(p.calls(), 0U);
}

}  // namespace
}  // namespace headscope::capture
