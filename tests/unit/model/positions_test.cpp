#include "model/positions.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/pairs.h"
#include "support/builders.h"

namespace headscope::model {
namespace {

using records::Causal;
using test_support::a_call;

TEST(PositionBins, EveryPositionIsInTheBinWhoseRangeHoldsIt) {
  for (std::int64_t position = 1; position < 100'000; ++position) {
    const PositionRange range = position_range(position_bin(position));
    ASSERT_LE(range.first, position);
    ASSERT_GE(range.last, position);
  }
}

TEST(PositionBins, ReachTwoMillionTokensAndHaveNoGaps) {
  for (std::size_t bin = 1; bin < kPositionBins; ++bin) {
    ASSERT_EQ(position_range(bin).first, position_range(bin - 1).last + 1);
  }
  EXPECT_GT(position_range(kPositionBins - 1).first, 2'000'000);
  EXPECT_EQ(position_bin(1024), position_bin(1025));
  EXPECT_NE(position_bin(1024), position_bin(1023));
}

/// Pairs of each position, counted one by one.
std::uint64_t pairs_at(const Sequence& sequence, std::int64_t before, const PositionRange& range) {
  std::uint64_t pairs = 0;
  for (std::int64_t query = 0; query < sequence.q_len; ++query) {
    const std::int64_t position = before + query + 1;
    if (position >= range.first && position <= range.last) {
      pairs += admitted_pairs(sequence, query, query + 1);
    }
  }
  return pairs;
}

TEST(QueryBlocks, CausalPrefillEqualsBruteForce) {
  const auto call = a_call().shape(3, 2, 100, 8).causal(Causal::kUpperLeft).build();
  const QueryBlocks blocks = query_blocks(call);
  const Sequence sequence{100, 100, Causal::kUpperLeft};
  for (std::size_t bin = 0; bin < kPositionBins; ++bin) {
    ASSERT_EQ(blocks.weights[bin], 3 * pairs_at(sequence, 0, position_range(bin))) << bin;
  }
  EXPECT_TRUE(blocks.exact);
  EXPECT_EQ(std::accumulate(blocks.queries.begin(), blocks.queries.end(), std::uint64_t{0}), 300U);
}

TEST(QueryBlocks, ChunkStandsBehindTheKeysThatAreThere) {
  const auto call = a_call().q_len(10).kv_len(50).causal(Causal::kLowerRight).build();
  const QueryBlocks blocks = query_blocks(call);
  const Sequence sequence{10, 50, Causal::kLowerRight};
  for (std::size_t bin = 0; bin < kPositionBins; ++bin) {
    ASSERT_EQ(blocks.weights[bin], pairs_at(sequence, 40, position_range(bin))) << bin;
  }
}

TEST(QueryBlocks, MaskThatIsATriangleHasPairsByRow) {
  const auto mask = records::MaskCount{.pairs = 55, .used_keys = 10, .lower_triangle = true};
  const QueryBlocks blocks = query_blocks(a_call().q_len(10).kv_len(64).mask(mask).build());
  EXPECT_TRUE(blocks.exact);
  EXPECT_EQ(blocks.weights[position_bin(10)], 8U + 9U + 10U);  // the bin of 8 to 10
}

TEST(QueryBlocks, AnyOtherMaskIsDividedByQueries) {
  const auto mask = records::MaskCount{.pairs = 54, .used_keys = 10, .lower_triangle = true};
  const QueryBlocks blocks = query_blocks(a_call().q_len(10).kv_len(64).mask(mask).build());
  EXPECT_FALSE(blocks.exact);
  EXPECT_EQ(blocks.weights, blocks.queries);
}

TEST(MeanUsedKeys, IsOverTheSequencesThatHaveQueries) {
  auto call = a_call().q_len(1).kv_len(30).lengths({1, 0, 1}, {10, 99, 30}).build();
  EXPECT_EQ(mean_used_keys(call), 20);
  call.lengths_unknown = true;
  EXPECT_EQ(mean_used_keys(call), 0);
}

}  // namespace
}  // namespace headscope::model
