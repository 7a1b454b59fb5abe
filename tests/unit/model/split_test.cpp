#include "base/split.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace headscope::base {
namespace {

std::vector<std::uint64_t> shares_of(Wide total, std::size_t parts, const std::vector<std::uint64_t>& weights) {
  std::vector<std::uint64_t> shares;
  split(total, parts, weights, [&](std::size_t part, Wide share) {
    EXPECT_EQ(part, shares.size());
    shares.push_back(static_cast<std::uint64_t>(share));
  });
  return shares;
}

TEST(Split, EqualSharesFollowCumulativeFloors) {
  // floor(10·1/4), floor(10·2/4), floor(10·3/4), 10 = 2, 5, 7, 10.
  EXPECT_EQ(shares_of(10, 4, {}), (std::vector<std::uint64_t>{2, 3, 2, 3}));
}

TEST(Split, WeightedSharesFollowCumulativeFloors) {
  // W = 6: floor(10·1/6) = 1, floor(10·3/6) = 5, 10.
  EXPECT_EQ(shares_of(10, 3, {1, 2, 3}), (std::vector<std::uint64_t>{1, 4, 5}));
}

TEST(Split, PartOfWeightZeroGetsNothing) {
  EXPECT_EQ(shares_of(7, 3, {1, 0, 1}), (std::vector<std::uint64_t>{3, 0, 4}));
}

TEST(Split, AllWeightsZeroAreEqualShares) {
  EXPECT_EQ(shares_of(9, 3, {0, 0, 0}), (std::vector<std::uint64_t>{3, 3, 3}));
}

TEST(Split, WeightsOfAnotherNumberThanPartsAreEqualShares) {
  EXPECT_EQ(shares_of(8, 2, {1, 2, 5}), (std::vector<std::uint64_t>{4, 4}));
}

TEST(Split, NoPartsEmitNothing) { EXPECT_TRUE(shares_of(5, 0, {}).empty()); }

TEST(Split, SumIsTheTotalForEveryTotalAndWeight) {
  for (std::uint64_t total = 0; total < 60; ++total) {
    for (std::uint64_t a = 0; a < 5; ++a) {
      for (std::uint64_t b = 0; b < 5; ++b) {
        const auto shares = shares_of(total, 3, {a, b, 3});
        EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), total);
      }
    }
  }
}

TEST(Split, LargestTotalWithWeightsJustBelowTheBoundIsExact) {
  // W = 2⁶⁴ − 1 = 3 · 6148914691236517205, so a third of 2¹²⁸ − 1 is exact.
  constexpr Wide kTotal = ~Wide{0};
  constexpr std::uint64_t kThird = std::numeric_limits<std::uint64_t>::max() / 3;
  std::array<Wide, 3> shares{};
  split(kTotal, std::array{kThird, kThird, kThird}, shares);
  EXPECT_TRUE(shares[0] == kTotal / 3 && shares[1] == kTotal / 3 && shares[2] == kTotal / 3);
}

TEST(Split, WeightsBeyondTheBoundStillSumToTheTotal) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(shares_of(101, 2, {kMax, kMax}), (std::vector<std::uint64_t>{50, 51}));
}

TEST(Split, BytesOfASharedKeyHeadGoToItsQueryHeadsAlone) {
  // 8 query heads on 2 key heads of 1,001 B each: each group of 4 sums to its key head.
  const auto shares = shares_of(2002, 8, {});
  EXPECT_EQ(shares[0] + shares[1] + shares[2] + shares[3], 1001U);
}

TEST(Split, MultiQueryKeysAreSplitOverAllHeads) {
  // One key head of 10 B under 3 query heads: 3, 6, 10.
  EXPECT_EQ(shares_of(10, 3, {}), (std::vector<std::uint64_t>{3, 3, 4}));
}

}  // namespace
}  // namespace headscope::base
