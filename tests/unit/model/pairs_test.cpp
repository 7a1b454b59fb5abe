#include "model/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/builders.h"

namespace headscope::model {
namespace {

using records::Causal;
using records::Window;
using test_support::a_call;

/// Whether query i sees key j, written from the definitions alone.
bool sees(const Sequence& s, std::int64_t i, std::int64_t j) {
  const bool lower_right = s.causal == Causal::kLowerRight || (s.causal == Causal::kNone && s.window.lower_right);
  const std::int64_t diagonal = lower_right ? i + s.kv_len - s.q_len : i;
  return (s.causal == Causal::kNone || j <= diagonal) && (s.window.left < 0 || j >= diagonal - s.window.left) &&
         (s.window.right < 0 || j <= diagonal + s.window.right);
}

std::uint64_t counted(const Sequence& s, std::int64_t from, std::int64_t to) {
  std::uint64_t pairs = 0;
  for (std::int64_t i = from; i < to; ++i) {
    for (std::int64_t j = 0; j < s.kv_len; ++j) {
      pairs += sees(s, i, j) ? 1U : 0U;
    }
  }
  return pairs;
}

std::set<std::int64_t> keys_seen(const Sequence& s) {
  std::set<std::int64_t> keys;
  for (std::int64_t i = 0; i < s.q_len; ++i) {
    for (std::int64_t j = 0; j < s.kv_len; ++j) {
      if (sees(s, i, j)) {
        keys.insert(j);
      }
    }
  }
  return keys;
}

std::string describe(const Sequence& s) {
  return "Sq " + std::to_string(s.q_len) + " Sk " + std::to_string(s.kv_len) + " causal " +
         std::to_string(static_cast<int>(s.causal)) + " left " + std::to_string(s.window.left) + " right " +
         std::to_string(s.window.right) + (s.window.lower_right ? " lower right" : "");
}

std::vector<Sequence> grid() {
  std::vector<Sequence> sequences;
  for (std::int64_t q = 0; q <= 6; ++q) {
    for (std::int64_t k = 0; k <= 6; ++k) {
      for (const std::int64_t left : {-1, 0, 1, 3, 9}) {
        for (const std::int64_t right : {-1, 0, 2, 9}) {
          for (const bool lower_right : {false, true}) {
            for (const Causal causal : {Causal::kNone, Causal::kUpperLeft, Causal::kLowerRight}) {
              sequences.push_back({q, k, causal, Window{left, right, lower_right}});
            }
          }
        }
      }
    }
  }
  return sequences;
}

TEST(Pairs, ClosedFormEqualsTheDoubleLoopOnEverySmallShape) {
  for (const Sequence& s : grid()) {
    EXPECT_EQ(admitted_pairs(s), counted(s, 0, s.q_len)) << describe(s);
  }
}

TEST(Pairs, QueryBlockEqualsTheDoubleLoopOnEverySmallShape) {
  for (const Sequence& s : grid()) {
    for (std::int64_t from = 0; from <= s.q_len; ++from) {
      for (std::int64_t to = from; to <= s.q_len; ++to) {
        ASSERT_EQ(admitted_pairs(s, from, to), counted(s, from, to)) << describe(s) << " block " << from << ' ' << to;
      }
    }
  }
}

TEST(Pairs, TouchedKeysEqualTheUnionOnEverySmallShape) {
  for (const Sequence& s : grid()) {
    const std::set<std::int64_t> keys = keys_seen(s);
    const KeyRange expected = keys.empty() ? KeyRange{} : KeyRange{*keys.begin(), *keys.rbegin() + 1};
    ASSERT_EQ(static_cast<std::int64_t>(keys.size()), expected.size()) << "the union has a hole: " << describe(s);
    EXPECT_EQ(touched_keys(s), expected) << describe(s);
  }
}

TEST(Pairs, LowerTriangleNeverSeesBeyondTheQuery) {
  for (const Sequence& s : grid()) {
    if (!is_lower_triangle(s)) {
      continue;
    }
    for (std::int64_t i = 0; i < s.q_len; ++i) {
      for (std::int64_t j = i + 1; j < s.kv_len; ++j) {
        EXPECT_FALSE(sees(s, i, j)) << describe(s);
      }
    }
  }
}

TEST(Pairs, FullAttentionIsNoLowerTriangle) { EXPECT_FALSE(is_lower_triangle({4, 1})); }

TEST(Pairs, CausalOf1024QueriesIsHalfASquareAndItsDiagonal) {
  // 1024 · 1025 / 2 (pytorch is_causal, Megatron-LM#831).
  EXPECT_EQ(admitted_pairs({1024, 1024, Causal::kUpperLeft}), 524'800U);
}

TEST(Pairs, CausalLowerRightOf4QueriesOn10Keys) {
  // 7 + 8 + 9 + 10 (xformers#1402).
  EXPECT_EQ(admitted_pairs({4, 10, Causal::kLowerRight}), 34U);
}

TEST(Pairs, CausalUpperLeftOf4QueriesOn10Keys) {
  // 1 + 2 + 3 + 4 (xformers#1402).
  EXPECT_EQ(admitted_pairs({4, 10, Causal::kUpperLeft}), 10U);
}

TEST(Pairs, CausalUpperLeftWithOneQuerySeesOneKey) { EXPECT_EQ(admitted_pairs({1, 10, Causal::kUpperLeft}), 1U); }

TEST(Pairs, CausalUpperLeftWithMoreQueriesThanKeysClampsToAllKeys) {
  // 1 + 2 + 3 + 3 + 3.
  EXPECT_EQ(admitted_pairs({5, 3, Causal::kUpperLeft}), 12U);
}

TEST(Pairs, CausalLowerRightWithMoreQueriesThanKeysLeavesTheFirstQueriesEmpty) {
  // 0 + 0 + 1 + 2 + 3.
  EXPECT_EQ(admitted_pairs({5, 3, Causal::kLowerRight}), 6U);
}

TEST(Pairs, SlidingWindowOfDecodeSeesTheLastKeys) {
  EXPECT_EQ(touched_keys({1, 100, Causal::kLowerRight, Window{.left = 9}}), (KeyRange{90, 100}));
}

TEST(Pairs, LongestLengthsDoNotOverflow) {
  // (2³¹ − 1)² for full attention.
  constexpr std::int64_t kLength = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(admitted_pairs({kLength, kLength}), static_cast<std::uint64_t>(kLength) * kLength);
}

TEST(Pairs, LongestCausalDoesNotOverflow) {
  // n (n + 1) / 2 with n = 2³¹ − 1: (2³¹ − 1) · 2³⁰.
  constexpr std::int64_t kLength = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(admitted_pairs({kLength, kLength, Causal::kLowerRight}), static_cast<std::uint64_t>(kLength) << 30);
}

TEST(CallPairs, DenseBatchCountsEverySequenceAndQueryHead) {
  const auto call = a_call().shape(2, 5, 9, 4).build();
  // 2 · 5 · 9 · 9.
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 810U);
}

TEST(CallPairs, VarlenSumsItsSequencesInsteadOfTheLongest) {
  const auto call = a_call().shape(1, 8, 1, 64).lengths({128, 64}, {128, 64}).build();
  // 8 · (128² + 64²) = 163,840 (flashinfer#1638).
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 163'840U);
}

TEST(CallPairs, EmptySideOfLengthsStandsForTheGeometrysLength) {
  auto call = a_call().shape(2, 1, 1, 4).kv_len(16).build();
  call.lengths = std::make_shared<const records::Lengths>(records::Lengths{{}, {3, 7}});
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 10U);
}

TEST(CallPairs, LengthsThatDisagreeInNumberAreUnknown) {
  auto call = a_call().build();
  call.lengths = std::make_shared<const records::Lengths>(records::Lengths{{1, 2, 3}, {3, 7}});
  EXPECT_EQ(call_pairs(call), std::nullopt);
}

TEST(CallPairs, CountedMaskTakesThePlaceOfCausal) {
  const auto call = a_call().shape(1, 2, 4, 8).causal(Causal::kUpperLeft).mask({.pairs = 11}).build();
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 11U);
}

TEST(CallPairs, OpaqueMaskIsDense) {
  const auto call = a_call().shape(1, 2, 4, 8).mask(records::MaskState::kOpaque).build();
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 32U);
}

TEST(CallPairs, UnseenMaskIsDense) {
  const auto call = a_call().shape(1, 2, 4, 8).mask(records::MaskState::kUnseen).build();
  EXPECT_EQ(static_cast<std::uint64_t>(call_pairs(call)->admitted), 32U);
}

TEST(CallPairs, SlidingWindowTouchesAPartOfTheKeys) {
  const auto call = a_call().shape(3, 2, 1, 8).kv_len(100).causal(Causal::kLowerRight).window(15, 0).build();
  // 16 keys in each of 3 sequences.
  EXPECT_EQ(call_pairs(call)->keys_touched, 48U);
}

}  // namespace
}  // namespace headscope::model
