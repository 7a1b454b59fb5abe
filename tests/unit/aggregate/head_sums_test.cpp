#include "aggregate/head_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "base/split.h"

namespace headscope::aggregate {
namespace {

Count sum_of(const std::vector<Count>& shares) { return std::accumulate(shares.begin(), shares.end(), Count{0}); }

TEST(SplitSum, EqualSharesAreCumulativeFloors) {
  SplitSum sum(5);
  sum.add_equal(13);
  // floor(13·1/5)=2, 13·2/5=5, 13·3/5=7, 13·4/5=10, 13.
  EXPECT_EQ(sum.shares(), (std::vector<Count>{2, 3, 2, 3, 3}));
}

TEST(SplitSum, ManyEqualSharesMatchSplittingEachCallAlone) {
  for (const std::size_t heads : {1U, 2U, 3U, 7U, 12U, 32U, 71U}) {
    std::mt19937_64 random(heads);
    SplitSum sum(heads);
    std::vector<Count> expected(heads);
    for (int call = 0; call < 500; ++call) {
      const std::uint64_t value = random() >> (random() % 60);
      sum.add_equal(value);
      base::split(value, heads, {}, [&](std::size_t head, base::Wide share) { expected[head] += share; });
    }
    EXPECT_EQ(sum.shares(), expected) << heads;
  }
}

TEST(SplitSum, SharesSumToTheTotalWithMixedWeights) {
  SplitSum sum(3);
  sum.add_equal(10);
  sum.add_weighted(1'000'001, {1, 0, 5});
  sum.add_weighted(17, {0, 0, 0});
  EXPECT_EQ(sum_of(sum.shares().value()), Count{10 + 1'000'001 + 17});
}

TEST(SplitSum, HeadOfWeightZeroGetsNothing) {
  SplitSum sum(3);
  sum.add_weighted(600, {1, 0, 5});
  EXPECT_EQ(sum.shares(), (std::vector<Count>{100, 0, 500}));
}

TEST(SplitSum, OneUnknownValueMakesAllSharesUnknown) {
  SplitSum sum(2);
  sum.add_equal(4);
  sum.add_equal(std::nullopt);
  EXPECT_EQ(sum.shares(), std::nullopt);
}

TEST(SplitSum, MergingEqualsAddingAllToOne) {
  SplitSum all(3);
  SplitSum left(3);
  SplitSum right(3);
  for (SplitSum* sum : {&all, &left}) {
    sum->add_equal(10);
  }
  for (SplitSum* sum : {&all, &right}) {
    sum->add_equal(11);
    sum->add_weighted(100, {3, 3, 1});
  }
  left.merge(right);
  EXPECT_EQ(left.shares(), all.shares());
}

TEST(SplitSum, SumsBeyond64Bits) {
  SplitSum sum(1);
  sum.add_equal(UINT64_MAX);
  sum.add_equal(UINT64_MAX);
  EXPECT_EQ(sum.shares(), (std::vector<Count>{Count{UINT64_MAX} * 2}));
}

TEST(HeadSums, MergingAPartThatWasNotSplitLeavesNoHeads) {
  HeadSums heads(4);
  heads.merge(HeadSums(0));
  EXPECT_EQ(heads.heads(), 0U);
}

}  // namespace
}  // namespace headscope::aggregate
