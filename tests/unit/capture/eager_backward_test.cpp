#include <gtest/gtest.h>

#include "eager_program.h"

namespace headscope::capture {
namespace {

using records::Geometry;
using test::Program;
using test::strided;
using test::t;
using test::turned;

// B2 H4 Sq5 Sk7 D3 Dv4. Storages: Q 1, K 2, V 5, P 4, dO 20, dP 21, dS 22, scaled dS 23.
constexpr std::uint64_t kPairs = 2ULL * 8 * 5 * 7;  // FLOPs of a product per inner or outer dim

Program& value_gradient(Program& p) { return p.product(turned(8, 5, 7, 4), t({8, 5, 4}, 20), t({8, 7, 4}, 30)); }
Program& probability_gradient(Program& p) { return p.product(t({8, 5, 4}, 20), turned(8, 7, 4, 5), t({8, 5, 7}, 21)); }
Program& softmax_backward(Program& p) {
  return p.softmax_backward(t({2, 4, 5, 7}, 21), t({2, 4, 5, 7}, 4), t({2, 4, 5, 7}, 22));
}
/// What follows runs inside a backward pass.
Program in_backward(bool detail = false) {
  Program p(detail);
  p.enter_backward();
  return p;
}
/// A softmax backward over [2, 4, q, k] whose forward was seen.
SoftmaxBackwardEvent of_known_forward(const Geometry& forward) {
  SoftmaxBackwardEvent event;
  event.grad_out = t({2, 4, forward.q_len, forward.kv_len}, 21);
  event.output = t({2, 4, forward.q_len, forward.kv_len}, 4);
  event.grad_in = t({2, 4, forward.q_len, forward.kv_len}, 22);
  event.dim = 3;
  event.forward_known = true;
  event.forward_call_id = 77;
  event.forward_layer.label = 9;
  event.forward_geometry = forward;
  return event;
}
Program& key_gradient(Program& p, StorageId scores = 23) {
  return p.product(turned(8, 5, 3, 1), t({8, 5, 7}, scores), t({8, 3, 7}, 31));
}
Program& query_gradient(Program& p, StorageId scores = 23) {
  return p.product(t({8, 5, 7}, scores), t({8, 7, 3}, 2), t({8, 5, 3}, 32));
}

/// What autograd runs for softmax(q @ kᵀ · s) @ v.
Program backward() {
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  softmax_backward(p);
  key_gradient(p);
  query_gradient(p);
  return p;
}

TEST(EagerBackward, FourProductsAroundASoftmaxBackwardAreOneCall) {
  const auto p = backward();
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().direction, Direction::kBackward);
}

TEST(EagerBackward, AllFourProductsCountTheirFlops) {
  // dV and dP by Dv, dQ and dK by D.
  EXPECT_EQ(backward().call().product_flops, kPairs * (4 + 4 + 3 + 3));
}

TEST(EagerBackward, EqualDimsMakeEightTimesTheScoreProduct) {
  // X = B·H·Sq·Sk·D; 2X for each product.
  Program p = in_backward();
  p.product(turned(8, 16, 16, 4), t({8, 16, 8}, 20), t({8, 16, 8}, 30));
  p.product(t({8, 16, 8}, 20), turned(8, 16, 8, 5), t({8, 16, 16}, 21));
  p.softmax_backward(t({1, 8, 16, 16}, 21), t({1, 8, 16, 16}, 4), t({1, 8, 16, 16}, 22));
  p.product(turned(8, 16, 8, 1), t({8, 16, 16}, 22), t({8, 8, 16}, 31));
  p.product(t({8, 16, 16}, 22), t({8, 16, 8}, 2), t({8, 16, 8}, 32));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().product_flops, 8U * (8 * 16 * 16 * 8));
}

TEST(EagerBackward, GeometryComesFromTheShapesWithoutAForward) {
  EXPECT_EQ(backward().call().geometry, (Geometry{2, 4, 4, 5, 7, 3, 4}));
}

TEST(EagerBackward, AllGradientsAreSeen) {
  const auto gradients = backward().call().gradients;
  EXPECT_EQ(gradients, (records::Gradients{true, true, true}));
}

TEST(EagerBackward, OperandsAreThoseOfTheProducts) {
  const auto p = backward();
  EXPECT_EQ(p.call().q.elements, 120U);
  EXPECT_EQ(p.call().k.elements, 168U);
  EXPECT_EQ(p.call().v.elements, 224U);
  EXPECT_EQ(p.call().out.elements, 160U);
}

TEST(EagerBackward, BroadcastOutputGradientDoesNotShrinkTheOutput) {
  // The gradient of out.sum() has stride 0.
  Program p = in_backward();
  p.product(strided({8, 5, 4}, {0, 0, 0}, 20), turned(8, 7, 4, 5), t({8, 5, 7}, 21));
  softmax_backward(p);
  key_gradient(p);
  query_gradient(p);
  EXPECT_EQ(p.call().out.elements, 160U);
}

TEST(EagerBackward, TimeIsThatOfFiveOps) { EXPECT_EQ(backward().call().time_ns, 50); }

TEST(EagerBackward, ProbabilitiesNameTheForward) { EXPECT_EQ(backward().finished.at(0).probabilities, 4U); }

TEST(EagerBackward, QueryGradientMayComeFirst) {
  // baddbmm.
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  softmax_backward(p);
  query_gradient(p);
  key_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().product_flops, kPairs * 14);
}

TEST(EagerBackward, DropoutBetweenProductAndSoftmaxBackwardIsLinkedByShape) {
  Program p = in_backward();
  p.product(turned(8, 5, 7, 6), t({8, 5, 4}, 20), t({8, 7, 4}, 30));  // the dropped-out P
  probability_gradient(p);
  p.softmax_backward(t({2, 4, 5, 7}, 24), t({2, 4, 5, 7}, 4), t({2, 4, 5, 7}, 22));
  key_gradient(p);
  query_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_TRUE(p.call().gradients.v);
}

TEST(EagerBackward, EqualSizesAreToldApartByTheTransposedView) {
  // BERT with S = D = Dv = 6: every product is [8, 6, 6] @ [8, 6, 6].
  Program p = in_backward();
  p.product(turned(8, 6, 6, 4), t({8, 6, 6}, 20), t({8, 6, 6}, 30));
  p.product(t({8, 6, 6}, 20), turned(8, 6, 6, 5), t({8, 6, 6}, 21));
  p.softmax_backward(t({2, 4, 6, 6}, 21), t({2, 4, 6, 6}, 4), t({2, 4, 6, 6}, 22));
  p.product(turned(8, 6, 6, 1), t({8, 6, 6}, 23), t({8, 6, 6}, 31));
  EXPECT_EQ(p.calls(), 0U);
  p.product(t({8, 6, 6}, 23), turned(8, 6, 6, 2), t({8, 6, 6}, 32));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{true, true, true}));
}

TEST(EagerBackward, FrozenQueriesEndWithTheNextSoftmaxBackward) {
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  p.softmax_backward(of_known_forward({2, 4, 4, 5, 7, 3, 4}));
  key_gradient(p);
  EXPECT_EQ(p.calls(), 0U);
  // The next layer, whose products have the same shapes.
  p.product(turned(8, 5, 7, 104), t({8, 5, 4}, 120), t({8, 7, 4}, 130));
  p.product(t({8, 5, 4}, 120), turned(8, 7, 4, 105), t({8, 5, 7}, 121));
  p.softmax_backward(t({2, 4, 5, 7}, 121), t({2, 4, 5, 7}, 104), t({2, 4, 5, 7}, 122));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{false, true, true}));
  EXPECT_EQ(p.call().product_flops, kPairs * (4 + 4 + 3));
}

TEST(EagerBackward, FrozenKeysOfSquareShapesDoNotTakeTheNextLayersProducts) {
  // S = D = Dv = 6; only Q is trained, so dQ alone follows.
  Program p = in_backward();
  p.product(t({8, 6, 6}, 20), turned(8, 6, 6, 5), t({8, 6, 6}, 21));
  p.softmax_backward(of_known_forward({2, 4, 4, 6, 6, 6, 6}));
  p.product(t({8, 6, 6}, 23), t({8, 6, 6}, 2), t({8, 6, 6}, 32));
  p.product(turned(8, 6, 6, 104), t({8, 6, 6}, 120), t({8, 6, 6}, 130));
  p.product(t({8, 6, 6}, 120), turned(8, 6, 6, 105), t({8, 6, 6}, 121));
  EXPECT_EQ(p.calls(), 0U);
  p.flush();
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{true, false, false}));
}

TEST(EagerBackward, FrozenValuesEndWithBothGradientsAndWithoutDv) {
  Program p = in_backward();
  probability_gradient(p);
  softmax_backward(p);
  key_gradient(p);
  query_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{true, true, false}));
}

TEST(EagerBackward, OpenBackwardEndsAtFlush) {
  Program p = in_backward();
  probability_gradient(p);
  p.softmax_backward(of_known_forward({2, 4, 4, 5, 7, 3, 4}));
  p.flush();
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{false, false, false}));
  EXPECT_EQ(p.call().product_flops, kPairs * 4);
}

TEST(EagerBackward, OneGradientWithoutAForwardIsProvenByItsStorage) {
  Program p = in_backward();
  probability_gradient(p);
  softmax_backward(p);
  query_gradient(p, 22);
  p.flush();
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().gradients, (records::Gradients{true, false, false}));
}

TEST(EagerBackward, HandWrittenBackwardWithTransposedScoreGradientIsLinkedByStorage) {
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  softmax_backward(p);
  query_gradient(p, 22);
  p.product(turned(8, 5, 7, 22), t({8, 5, 3}, 1), t({8, 7, 3}, 31));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_TRUE(p.call().gradients.k);
}

TEST(EagerBackward, ClassifierSoftmaxBackwardWithoutProductIsNoAttention) {
  Program p = in_backward();
  softmax_backward(p);
  key_gradient(p);
  query_gradient(p);
  p.flush();
  EXPECT_EQ(p.calls(), 0U);
}

TEST(EagerBackward, KnownForwardGivesIdLayerAndGeometry) {
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  p.softmax_backward(of_known_forward({2, 4, 2, 5, 7, 3, 4}));
  key_gradient(p);
  query_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().forward_call_id, 77U);
  EXPECT_EQ(p.call().layer.label, 9U);
  EXPECT_EQ(p.call().geometry.kv_heads, 2);
}

TEST(EagerBackward, SinkColumnIsPaddedBeforeAndDroppedAfter) {
  Program p = in_backward();
  value_gradient(p);
  probability_gradient(p);
  p.softmax_backward(t({2, 4, 5, 8}, 24), t({2, 4, 5, 8}, 4), t({2, 4, 5, 8}, 22));
  key_gradient(p);
  query_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry.kv_len, 7);
}

TEST(EagerBackward, GroupedEinsumIsLinked) {
  Program p = in_backward();
  p.product(turned(4, 15, 7, 4), t({4, 15, 4}, 20), t({4, 7, 4}, 30));
  p.product(t({4, 15, 4}, 20), turned(4, 7, 4, 5), t({4, 15, 7}, 21));
  p.softmax_backward(t({2, 2, 3, 5, 7}, 21), t({2, 2, 3, 5, 7}, 4), t({2, 2, 3, 5, 7}, 22));
  p.product(turned(4, 15, 3, 1), t({4, 15, 7}, 22), t({4, 3, 7}, 31));
  p.product(t({4, 15, 7}, 22), t({4, 7, 3}, 2), t({4, 15, 3}, 32));
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().geometry, (Geometry{2, 6, 2, 5, 7, 3, 4}));
}

TEST(EagerBackward, RecomputedForwardBetweenTwoBackwardsIsACallOfItsOwn) {
  auto p = backward();
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 40));
  p.softmax(t({2, 4, 5, 7}, 40), t({2, 4, 5, 7}, 41));
  p.product(t({8, 5, 7}, 41), t({8, 7, 4}, 5), t({8, 5, 4}, 42));
  ASSERT_EQ(p.calls(), 2U);
  EXPECT_EQ(p.call(1).direction, Direction::kForward);
}

/// QKᵀ and the softmax of a recompute that ends there, then the products of dV and dP.
Program stopped_recompute() {
  Program p = in_backward();
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3)).softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  value_gradient(p);
  probability_gradient(p);
  return p;
}

TEST(EagerBackward, RecomputeThatStoppedBeforePvIsKnownByItsProbabilities) {
  Program p = stopped_recompute();
  const auto scores = p.recogniser.take_scores(of_known_forward({2, 4, 4, 5, 7, 3, 4}));
  ASSERT_TRUE(scores);
  EXPECT_TRUE(scores->call.scores_only);
  EXPECT_EQ(scores->call.geometry, (Geometry{2, 4, 4, 5, 7, 3, 4}));  // dP tells the 4 of V
  p.flush();
  EXPECT_EQ(p.recogniser.unfinished(), 0U);
}

TEST(EagerBackward, ForwardWithOtherProbabilitiesIsNotTakenForAStoppedRecompute) {
  Program p = stopped_recompute();
  SoftmaxBackwardEvent event = of_known_forward({2, 4, 4, 5, 7, 3, 4});
  event.output.storage = 99;
  EXPECT_FALSE(p.recogniser.take_scores(event));
}

TEST(EagerBackward, ForwardOutsideABackwardPassIsNoStoppedRecompute) {
  Program p;
  p.product(t({8, 5, 3}, 1), turned(8, 7, 3, 2), t({8, 5, 7}, 3)).softmax(t({2, 4, 5, 7}, 3), t({2, 4, 5, 7}, 4));
  EXPECT_FALSE(p.recogniser.take_scores(of_known_forward({2, 4, 4, 5, 7, 3, 4})));
}

TEST(EagerBackward, DebertaPositionScoresHaveTwoFurtherProductsEach) {
  Program p;
  // Forward with one position product [8, 6, 8].
  p.product(t({8, 6, 3}, 1), turned(8, 6, 3, 2), t({8, 6, 6}, 3));
  p.product(t({8, 6, 3}, 1), turned(8, 8, 3, 10), t({8, 6, 8}, 11));
  p.softmax(t({2, 4, 6, 6}, 12), t({2, 4, 6, 6}, 4));
  p.product(t({8, 6, 6}, 4), t({8, 6, 3}, 5), t({8, 6, 3}, 6));
  // Backward: the position product's gradients come before those of Q and K.
  p.enter_backward();
  p.product(turned(8, 6, 6, 4), t({8, 6, 3}, 20), t({8, 6, 3}, 30));
  p.product(t({8, 6, 3}, 20), turned(8, 6, 3, 5), t({8, 6, 6}, 21));
  p.softmax_backward(t({2, 4, 6, 6}, 21), t({2, 4, 6, 6}, 4), t({2, 4, 6, 6}, 22));
  p.product(turned(8, 6, 3, 1), t({8, 6, 8}, 23), t({8, 3, 8}, 31));
  p.product(t({8, 6, 8}, 23), t({8, 8, 3}, 10), t({8, 6, 3}, 32));
  p.product(turned(8, 6, 3, 1), t({8, 6, 6}, 24), t({8, 3, 6}, 33));
  p.product(t({8, 6, 6}, 24), t({8, 6, 3}, 2), t({8, 6, 3}, 34));
  ASSERT_EQ(p.calls(), 2U);
  EXPECT_EQ(p.call(1).extra_product_flops, 2U * (2 * 8 * 6 * 3 * 8));
  EXPECT_EQ(p.call(1).product_flops, 4U * (2 * 8 * 6 * 6 * 3));
}

TEST(EagerBackward, ScoreSizedTensorsAreWrittenAndReadOnceByEachOp) {
  // 1,120 bytes each: dV reads P; dP written; softmax backward reads dP and P and writes dS; dQ and dK read dS.
  EXPECT_EQ(backward().call().materialized.traffic_bytes, 7U * 1120);
  EXPECT_EQ(backward().call().score_bytes, 2 * 1120);
}

TEST(EagerBackward, DetailCountsTheScaleOfTheScoreGradient) {
  Program p = in_backward(true);
  value_gradient(p);
  probability_gradient(p);
  softmax_backward(p);
  p.op(ElementwiseEvent::Kind::kArithmetic, t({2, 4, 5, 7}, 22), t({2, 4, 5, 7}, 23));
  EXPECT_EQ(p.role, ElementwiseRole::kChain);
  key_gradient(p);
  query_gradient(p);
  ASSERT_EQ(p.calls(), 1U);
  EXPECT_EQ(p.call().materialized.traffic_bytes, 9U * 1120);
  EXPECT_TRUE(p.call().materialized.exact);
  EXPECT_EQ(p.call().glue_ns, 10);
}

}  // namespace
}  // namespace headscope::capture
