#include "model/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/split.h"
#include "model/work.h"
#include "support/builders.h"

namespace headscope::model {
namespace {

using records::Causal;
using test_support::a_call;

std::optional<std::uint64_t> bytes_of(const test_support::CallBuilder& builder) {
  return cost(builder.build(), 1).bytes;
}

TEST(Bytes, DecodeCountsTheCachedKeysAndValues) {
  // Q and O 8·64·4 = 2,048 each, K and V 8·4096·64·4 = 8,388,608 each (sycl-tla#778).
  EXPECT_EQ(bytes_of(a_call().shape(1, 8, 1, 64).kv_len(4096)), 16'781'312U);
}

TEST(Bytes, IntensityOfThatDecodeIsHalfAFlopAByte) {
  const auto call = a_call().shape(1, 8, 1, 64).kv_len(4096).build();
  const auto costed = cost(call, 1);
  // 8,388,608 ÷ 16,781,312.
  EXPECT_NEAR(static_cast<double>(*costed.flops) / static_cast<double>(*costed.bytes), 0.49988, 0.000005);
}

TEST(Bytes, ForwardMovesFourOperandsOnce) {
  // 4 · 2·5·9·4 elements · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(2, 5, 9, 4)), 5'760U);
}

TEST(Bytes, HalfPrecisionMovesHalf) { EXPECT_EQ(bytes_of(a_call().shape(2, 5, 9, 4).half()), 2'880U); }

TEST(Bytes, SharedKeyHeadsCountOnce) {
  // Q, O 8·16·4·4 = 2,048 each; K, V 2·16·4·4 = 512 each.
  EXPECT_EQ(bytes_of(a_call().shape(1, 8, 16, 4).kv_heads(2)), 5'120U);
}

TEST(Bytes, EachOperandHasItsOwnElementSize) {
  // K and V in 8 bits: 2·16·4·4 B (Q, O) + 2·16·4·1 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 1, 16, 4).k({64, 1}).v({64, 1})), 640U);
}

TEST(Bytes, WiderValueCountsInValueAndOutput) {
  // Q 4·8, K 10·8, V 10·16, O 4·16 elements = 336 · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 1, 4, 8).kv_len(10).head_dim_v(16)), 1'344U);
}

TEST(Bytes, CausalAloneMovesAllKeys) {
  EXPECT_EQ(bytes_of(a_call().q_len(1).kv_len(10).causal(Causal::kUpperLeft)), bytes_of(a_call().q_len(1).kv_len(10)));
}

TEST(Bytes, MaskCountsAsStored) {
  EXPECT_EQ(bytes_of(a_call().shape(2, 5, 9, 4).mask({.pairs = 1}).mask_bytes(81)), 5'841U);
}

TEST(Bytes, ValueInsideKeyCountsOnce) {
  // MLA: K 1·16·24 elements, V its first 16 columns; Q 16·24, O 16·16: (384 + 384 + 256) · 4 B.
  const auto call = a_call().shape(1, 1, 16, 24).head_dim_v(16).with([](auto& c) { c.kv_overlap_bytes = 16 * 16 * 4; });
  EXPECT_EQ(bytes_of(call), 4'096U);
}

TEST(Bytes, OneTensorAsQueryKeyAndValueCountsOnce) {
  // 16·24 elements in all of Q, K and V, and as many in O: 768 · 4 B.
  const auto call = a_call().shape(1, 1, 16, 24).with([](auto& c) {
    c.kv_overlap_bytes = 16 * 24 * 4;
    c.q_overlap_bytes = 16 * 24 * 4;
  });
  EXPECT_EQ(bytes_of(call), 3'072U);
}

TEST(Bytes, SlidingWindowMovesTheKeysThatAQuerySees) {
  // Q, O 4 elements each; K, V 16 of 100 keys · 4 elements: 136 · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 1, 1, 4).kv_len(100).causal(Causal::kLowerRight).window(15, 0)), 544U);
}

TEST(Bytes, ValueInsideKeyIsCutToTheWindowToo) {
  // K is V: Q, O 4 elements each and 16 keys · 4 elements once: 72 · 4 B.
  const auto call = a_call().shape(1, 1, 1, 4).kv_len(100).causal(Causal::kLowerRight).window(15, 0).with([](auto& c) {
    c.kv_overlap_bytes = 1'600;
  });
  EXPECT_EQ(bytes_of(call), 288U);
}

TEST(Bytes, PagePoolCountsTheTokensInUse) {
  // Pool of 1,000 slots; 17 + 3 used: Q, O 2·4 elements each, K, V 20·4 each: 176 · 4 B.
  const auto call = a_call().shape(1, 1, 1, 4).lengths({1, 1}, {17, 3}).k({4'000, 4}).v({4'000, 4});
  EXPECT_EQ(bytes_of(call), 704U);
}

TEST(Bytes, PagePoolWithASlidingWindowCountsTheTokensSeen) {
  // 8 of 17 keys and all of 3: Q, O 8 elements each, K, V 11·4 each: 104 · 4 B.
  const auto call = a_call()
                        .shape(1, 1, 1, 4)
                        .lengths({1, 1}, {17, 3})
                        .causal(Causal::kLowerRight)
                        .window(7, 0)
                        .k({4'000, 4})
                        .v({4'000, 4});
  EXPECT_EQ(bytes_of(call), 416U);
}

TEST(Bytes, BroadcastKeysOfAVarlenBatchCountTheirStorage) {
  // 2 key heads in one storage of 20·4 elements: min(80, 20·2·4). Q, O 20·2·4 elements each: 480 · 4 B.
  const auto call = a_call().shape(1, 2, 1, 4).lengths({17, 3}, {17, 3}).k({80, 4}).v({80, 4});
  EXPECT_EQ(bytes_of(call), 1'920U);
}

TEST(Bytes, UnknownLengthsLeaveThemUnknown) {
  EXPECT_EQ(bytes_of(a_call().with([](auto& c) { c.lengths_unknown = true; })), std::nullopt);
}

TEST(Bytes, PackOfUnknownLengthsMovesItsTokens) {
  const auto call = a_call().shape(1, 1, 20, 4).with([](auto& c) { c.lengths_unknown = c.kv_packed = true; });
  // 4 · 20·4 elements · 4 B.
  EXPECT_EQ(bytes_of(call), 1'280U);
}

TEST(Bytes, PackOfUnknownLengthsWithASlidingWindowIsUnknown) {
  const auto call = a_call().window(3, 0).with([](auto& c) { c.lengths_unknown = c.kv_packed = true; });
  EXPECT_EQ(bytes_of(call), std::nullopt);
}

TEST(Bytes, BackwardReadsFiveAndWritesThree) {
  // Q, K, V, O, dO, dQ, dK, dV: 8 · 12·64·64 elements · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 12, 64, 64).backward()), 1'572'864U);
}

TEST(Bytes, BackwardWritesOnlyTheGradientsMade) {
  // Six tensors of 12·64·64 elements · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 12, 64, 64).backward().gradients({true, false, false})), 1'179'648U);
}

TEST(Bytes, GradientOfABroadcastKeyIsWrittenWhole) {
  // K, V stored for 1 of 2 heads: 64 elements each; the other six are 128: 896 · 4 B.
  EXPECT_EQ(bytes_of(a_call().shape(1, 2, 16, 4).k({64, 4}).v({64, 4}).backward()), 3'584U);
}

TEST(Bytes, FusedBackwardReadsTheMaskAgain) {
  EXPECT_EQ(bytes_of(a_call().shape(1, 1, 16, 4).backward().mask_bytes(256)), 8 * 64 * 4 + 256U);
}

TEST(Bytes, EagerBackwardDoesNotReadTheMask) {
  EXPECT_EQ(bytes_of(a_call().shape(1, 1, 16, 4).eager().backward().mask_bytes(256)), 8 * 64 * 4U);
}

TEST(Bytes, OperandThatWasNotSeenFollowsTheGeometry) {
  EXPECT_EQ(bytes_of(a_call().shape(2, 5, 9, 4).q({0, 4})), 5'760U);
}

TEST(Bytes, OperandThatWasNotSeenMakesThemEstimated) {
  EXPECT_EQ(cost(a_call().q({0, 4}).build(), 1).bytes_provenance, Provenance::kEstimated);
}

TEST(Bytes, OperandsThatWereSeenMakeThemModelled) {
  EXPECT_EQ(cost(a_call().build(), 1).bytes_provenance, Provenance::kModelled);
}

TEST(Bytes, CallWithoutAnyOperandSeenIsUnknown) {
  EXPECT_EQ(bytes_of(a_call().q({1, 0}).k({1, 0}).v({1, 0}).out({1, 0})), std::nullopt);
}

TEST(Bytes, SharesOfSharedKeyHeadsSumToTheCall) {
  const auto call = a_call().shape(1, 6, 7, 5).kv_heads(3).build();
  const std::uint64_t bytes = *cost(call, 1).bytes;
  base::Wide sum = 0;
  base::split(bytes, 6, {}, [&](std::size_t, base::Wide share) { sum += share; });
  EXPECT_EQ(static_cast<std::uint64_t>(sum), bytes);
}

TEST(MaterializedBytes, FusedKernelMakesNone) {
  EXPECT_EQ(materialized_bytes(a_call().build()), (Bytes{0, Provenance::kModelled}));
}

TEST(MaterializedBytes, CopiesSeenAroundAFusedKernelAreEstimatedUnlessAllOpsWereSeen) {
  const auto call = a_call().with([](auto& c) { c.materialized.traffic_bytes = 64; }).build();
  EXPECT_EQ(materialized_bytes(call), (Bytes{64, Provenance::kEstimated}));
}

TEST(MaterializedBytes, EagerChainSeenWholeIsModelled) {
  const auto call = a_call()
                        .eager()
                        .with([](auto& c) {
                          c.materialized.traffic_bytes = 64;
                          c.materialized.exact = true;
                        })
                        .build();
  EXPECT_EQ(materialized_bytes(call), (Bytes{64, Provenance::kModelled}));
}

TEST(MaterializedBytes, EagerChainSeenInPartIsEstimated) {
  const auto call = a_call().eager().with([](auto& c) { c.materialized.traffic_bytes = 64; }).build();
  EXPECT_EQ(materialized_bytes(call), (Bytes{64, Provenance::kEstimated}));
}

TEST(MaterializedBytes, EagerCallWithoutARecordIsUnknownNotZero) {
  EXPECT_EQ(materialized_bytes(a_call().eager().build()).value, std::nullopt);
}

TEST(Bytes, RecomputeThatStoppedBeforePvReadsQueriesAndKeysAlone) {
  const auto call = a_call().eager().shape(1, 1, 2, 4).with([](auto& c) { c.scores_only = true; });
  EXPECT_EQ(cost(call.build(), 1).bytes, 2U * (2 * 4 * 4));
}

}  // namespace
}  // namespace headscope::model
