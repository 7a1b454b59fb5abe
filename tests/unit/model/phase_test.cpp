#include "model/phase.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace headscope::model {
namespace {

using records::Causal;
using records::MaskState;
using test_support::a_call;

TEST(Phase, KeysOfAnotherSequenceAreCrossBeforeAnythingElse) {
  EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(50).cross().build(), 1), Phase::kCross);
}

TEST(Phase, OneQueryOnManyKeysIsDecode) {
  EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(50).build(), 1), Phase::kDecode);
}

TEST(Phase, OneQueryOnOneKeyIsPrefill) { EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(1).build(), 1), Phase::kPrefill); }

TEST(Phase, OneCausalUpperLeftQueryUsesOneKeyAndIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(10).causal(Causal::kUpperLeft).build(), 1), Phase::kPrefill);
}

TEST(Phase, OneQueryOnAStaticCacheWithOneUsedSlotIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(64).mask({.pairs = 1, .used_keys = 1}).build(), 1), Phase::kPrefill);
}

TEST(Phase, OneQueryUnderAnOpaqueMaskIsDecode) {
  EXPECT_EQ(phase_of(a_call().q_len(1).kv_len(64).mask(MaskState::kOpaque).build(), 1), Phase::kDecode);
}

TEST(Phase, FewQueriesUpToDecodeMaxQAreDecode) {
  EXPECT_EQ(phase_of(a_call().q_len(4).kv_len(50).causal(Causal::kLowerRight).build(), 4), Phase::kDecode);
}

TEST(Phase, MoreQueriesThanDecodeMaxQAreNoDecode) {
  EXPECT_EQ(phase_of(a_call().q_len(5).kv_len(50).causal(Causal::kLowerRight).build(), 4), Phase::kChunkedPrefill);
}

TEST(Phase, FewQueriesOnNoMoreThanDecodeMaxQKeysAreNoDecode) {
  EXPECT_EQ(phase_of(a_call().q_len(3).kv_len(4).causal(Causal::kLowerRight).build(), 4), Phase::kChunkedPrefill);
}

TEST(Phase, CausalSquareIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(50).kv_len(50).causal(Causal::kUpperLeft).build(), 1), Phase::kPrefill);
}

TEST(Phase, CausalLowerRightSquareIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(50).kv_len(50).causal(Causal::kLowerRight).build(), 1), Phase::kPrefill);
}

TEST(Phase, CausalSquareWithASlidingWindowIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(50).kv_len(50).causal(Causal::kLowerRight).window(8, 0).build(), 1),
            Phase::kPrefill);
}

TEST(Phase, WindowWithoutKeysToTheRightIsPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(50).kv_len(50).window(8, 0).build(), 1), Phase::kPrefill);
}

TEST(Phase, LowerTriangleOnAStaticCachesCapacityIsPrefill) {
  const auto call = a_call().q_len(5).kv_len(64).mask({.pairs = 15, .used_keys = 5, .lower_triangle = true}).build();
  EXPECT_EQ(phase_of(call, 1), Phase::kPrefill);
}

TEST(Phase, CausalLowerRightOnMoreKeysIsChunkedPrefill) {
  EXPECT_EQ(phase_of(a_call().q_len(16).kv_len(50).causal(Causal::kLowerRight).build(), 1), Phase::kChunkedPrefill);
}

TEST(Phase, SecondChunkInAStaticCacheIsChunkedPrefill) {
  // Queries 4..7 on slots 0..i of 64.
  const auto call = a_call().q_len(4).kv_len(64).mask({.pairs = 5 + 6 + 7 + 8, .used_keys = 8}).build();
  EXPECT_EQ(phase_of(call, 1), Phase::kChunkedPrefill);
}

TEST(Phase, FullSquareIsEncode) { EXPECT_EQ(phase_of(a_call().q_len(50).kv_len(50).build(), 1), Phase::kEncode); }

TEST(Phase, PaddingMaskOnASquareIsEncode) {
  const auto call = a_call().q_len(8).kv_len(8).mask({.pairs = 48, .used_keys = 6}).build();
  EXPECT_EQ(phase_of(call, 1), Phase::kEncode);
}

TEST(Phase, SquareUnderAMaskThatMayBeCausalIsUnknown) {
  EXPECT_EQ(phase_of(a_call().q_len(8).kv_len(8).mask(MaskState::kUnseen).build(), 1), Phase::kUnknown);
}

TEST(Phase, VarlenBatchOfOnePhaseHasThatPhase) {
  EXPECT_EQ(phase_of(a_call().lengths({1, 1}, {30, 40}).causal(Causal::kLowerRight).build(), 1), Phase::kDecode);
}

TEST(Phase, VarlenBatchOfPrefillAndDecodeIsMixed) {
  EXPECT_EQ(phase_of(a_call().lengths({1, 20}, {30, 20}).causal(Causal::kLowerRight).build(), 1), Phase::kMixed);
}

TEST(Phase, SequencesWithoutQueriesDoNotMakeABatchMixed) {
  EXPECT_EQ(phase_of(a_call().lengths({1, 0}, {30, 20}).causal(Causal::kLowerRight).build(), 1), Phase::kDecode);
}

TEST(Phase, UnknownLengthsHaveNoPhase) {
  const auto call = a_call().q_len(1).kv_len(50).with([](auto& c) { c.lengths_unknown = true; }).build();
  EXPECT_EQ(phase_of(call, 1), Phase::kUnknown);
}

}  // namespace
}  // namespace headscope::model
