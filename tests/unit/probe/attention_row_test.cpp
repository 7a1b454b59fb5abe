#include "probe/attention_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "probe/row_choice.h"

namespace headscope::probe {
namespace {

using records::Causal;
using records::HeadSample;

constexpr float kOut = -std::numeric_limits<float>::infinity();

HeadSample read(const std::vector<float>& scores, std::optional<std::int64_t> position = 0) {
  HeadSample sums;
  RowReader().read(scores, position, sums);
  return sums;
}

TEST(AttentionRowTest, EqualScoresAreUniform) {
  const HeadSample row = read({3, 3, 3, 3});
  EXPECT_EQ(row.rows, 1U);
  EXPECT_DOUBLE_EQ(row.entropy, 1.0);
  EXPECT_DOUBLE_EQ(row.effective_tokens, 4.0);
  EXPECT_DOUBLE_EQ(row.sink_mass, 0.25);
  EXPECT_DOUBLE_EQ(row.keys_95, 4.0);
  EXPECT_DOUBLE_EQ(row.attended_share, 1.0);
  EXPECT_DOUBLE_EQ(row.admitted_keys, 4.0);
}

// Weights 1/2, 1/4, 1/8, 1/8: H = 1.75 bits, of the 2 that four keys allow; 2^1.75 keys.
TEST(AttentionRowTest, EntropyByHand) {
  const float bit = std::log(2.0F);
  const HeadSample row = read({-2 * bit, -3 * bit, -1 * bit, -3 * bit}, 3);
  EXPECT_NEAR(row.entropy, 1.75 / 2, 1e-7);
  EXPECT_NEAR(row.effective_tokens, std::pow(2.0, 1.75), 1e-6);
  EXPECT_NEAR(row.sink_mass, 0.25, 1e-7);
  EXPECT_DOUBLE_EQ(row.keys_95, 4.0);
  // From the last key back: 1/8 here, then 1/2, then 1/8 and 1/4 at distances 2 and 3.
  EXPECT_NEAR(row.mass_by_distance[0], 0.125, 1e-7);
  EXPECT_NEAR(row.mass_by_distance[1], 0.5, 1e-7);
  EXPECT_NEAR(row.mass_by_distance[2], 0.375, 1e-7);
}

TEST(AttentionRowTest, OneKeyHoldsAll) {
  const HeadSample row = read({0, 200, 0});
  EXPECT_DOUBLE_EQ(row.entropy, 0.0);
  EXPECT_DOUBLE_EQ(row.effective_tokens, 1.0);
  EXPECT_DOUBLE_EQ(row.sink_mass, 0.0);
  EXPECT_DOUBLE_EQ(row.keys_95, 1.0);
  EXPECT_DOUBLE_EQ(row.attended_share, 1.0 / 3);
}

TEST(AttentionRowTest, KeysThatAreNotAdmittedCountForNothing) {
  const HeadSample row = read({kOut, kOut, 1, kOut, 1, kOut}, 5);
  EXPECT_DOUBLE_EQ(row.entropy, 1.0);
  EXPECT_DOUBLE_EQ(row.effective_tokens, 2.0);
  EXPECT_DOUBLE_EQ(row.sink_mass, 0.5);  // the first that is admitted
  EXPECT_DOUBLE_EQ(row.local_mass, 1.0);
  // The query stands beyond its last key, as in a cache with free places: that key is where it is.
  EXPECT_DOUBLE_EQ(row.mass_by_distance[0], 0.5);
  EXPECT_DOUBLE_EQ(row.mass_by_distance[2], 0.5);
}

TEST(AttentionRowTest, RowsWithoutAChoiceAreLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& scores : {std::vector<float>{}, {1}, {kOut, 2}, {kOut, kOut}, {1, nan}, {1, -kOut}}) {
    EXPECT_EQ(read(scores).rows, 0U);
  }
}

TEST(AttentionRowTest, KeysOfAnotherSequenceHaveNoDistance) {
  const HeadSample row = read({0, 0, 0, 0}, std::nullopt);
  EXPECT_DOUBLE_EQ(row.local_mass, 0.0);
  // By place from the first key, in the bins of later keys: 0, 1, 2–3.
  EXPECT_DOUBLE_EQ(row.mass_by_distance[0], 0.25);
  EXPECT_DOUBLE_EQ(row.mass_by_distance[distance_bin(-1)], 0.25);
  EXPECT_DOUBLE_EQ(row.mass_by_distance[distance_bin(-2)], 0.5);
}

TEST(AttentionRowTest, LocalMassIsOfThe32NearestByBruteForce) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    std::vector<float> scores(100);
    for (float& score : scores) {
      score = random() % 3 == 0 ? kOut : normal(random);
    }
    const auto position = static_cast<std::int64_t>(random() % 100);
    std::vector<std::int64_t> keys;
    double sum = 0;
    for (std::int64_t key = 0; key < 100; ++key) {
      if (scores[static_cast<std::size_t>(key)] != kOut) {
        keys.push_back(key);
        sum += std::exp(scores[static_cast<std::size_t>(key)]);
      }
    }
    const std::int64_t origin = std::min(position, keys.back());
    std::ranges::stable_sort(keys, {}, [&](std::int64_t key) { return std::abs(key - origin); });
    double mass = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      mass += std::exp(scores[static_cast<std::size_t>(keys[i])]) / sum;
    }
    EXPECT_NEAR(read(scores, position).local_mass, mass, 1e-6);
  }
}

TEST(AttentionRowTest, FewestThatHoldBySorting) {
  std::mt19937 random(3);
  std::exponential_distribution<float> weight;
  for (std::size_t count = 1; count < 200; ++count) {
    std::vector<float> weights(count);
    for (float& w : weights) {
      w = weight(random);
    }
    double total = 0;
    for (const float w : weights) {
      total += w;
    }
    for (const double share : {0.01, 0.5, 0.95}) {
      std::vector<float> sorted = weights;
      std::ranges::sort(sorted, std::greater<>{});
      std::size_t fewest = 0;
      for (double held = 0; held < share * total; ++fewest) {
        held += sorted[fewest];
      }
      EXPECT_EQ(fewest_that_hold(weights, share * total), fewest);
    }
  }
  std::vector<float> none;
  EXPECT_EQ(fewest_that_hold(none, 0.95), 0U);
}

TEST(AttentionRowTest, DistanceBinsArePowersOfTwoEachWay) {
  EXPECT_EQ(distance_bin(0), 0U);
  EXPECT_EQ(distance_bin(1), 1U);
  EXPECT_EQ(distance_bin(2), 2U);
  EXPECT_EQ(distance_bin(3), 2U);
  EXPECT_EQ(distance_bin(4), 3U);
  EXPECT_EQ(distance_bin(std::int64_t{1} << 40), records::kDistancesEachWay);
  EXPECT_EQ(distance_bin(-1), records::kDistancesEachWay + 1);
  EXPECT_EQ(distance_bin(-(std::int64_t{1} << 40)), records::kDistanceBins - 1);
}

TEST(AttentionRowTest, CausalityAndWindowsByBruteForce) {
  for (const std::int64_t q_len : {1, 3, 5}) {
    for (const std::int64_t kv_len : {3, 5, 8}) {
      for (const Causal causal : {Causal::kNone, Causal::kUpperLeft, Causal::kLowerRight}) {
        for (const records::Window& window :
             {records::Window{}, records::Window{2, 0}, records::Window{1, 1}, records::Window{-1, 2}}) {
          for (std::int64_t query = 0; query < q_len; ++query) {
            const std::int64_t diagonal = causal == Causal::kLowerRight ? query + kv_len - q_len : query;
            const KeyRange keys = keys_of_query(causal, window, query, q_len, kv_len);
            for (std::int64_t key = 0; key < kv_len; ++key) {
              const bool admitted = (causal == Causal::kNone || key <= diagonal) &&
                                    (window.left < 0 || key >= diagonal - window.left) &&
                                    (window.right < 0 || key <= diagonal + window.right);
              EXPECT_EQ(key >= keys.first && key < keys.end, admitted);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionRowTest, MasksTakeKeysOut) {
  std::vector<float> scores = {1, 2, 3};
  apply_mask(scores, std::to_array<bool>({true, false, true}));
  EXPECT_EQ(scores, (std::vector<float>{1, kOut, 3}));

  constexpr float kLowest = std::numeric_limits<float>::lowest();
  scores = {1, 2, 3, 4};
  apply_mask(scores, std::to_array<float>({-0.5F, kLowest, kLowest / 2, kOut}), kLowest);
  EXPECT_EQ(scores, (std::vector<float>{0.5F, kOut, kOut, kOut}));
}

TEST(RowChoiceTest, SpreadsRowsOverTheBatch) {
  EXPECT_EQ(evenly_spaced(4, 8), (std::vector<std::int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(evenly_spaced(9, 3), (std::vector<std::int64_t>{0, 1, 2}));
  const RowChoice four = choose_rows(64, 4, 2, 100, 100);
  EXPECT_EQ(four.sequences.size(), 4U);
  EXPECT_EQ(four.queries, 16);
  const RowChoice many = choose_rows(64, 1000, 2, 100, 100);
  EXPECT_EQ(many.sequences.size(), 64U);
  EXPECT_EQ(many.queries, 1);
  EXPECT_EQ(choose_rows(64, 2, 2, 5, 5).rows(), 10);  // all
  // 32 heads × 32,768 keys a row: two rows have all the scores that a call may have.
  EXPECT_EQ(choose_rows(64, 1, 32, 4096, 32'768).rows(), 2);
  EXPECT_EQ(choose_rows(64, 1, 128, 4096, 1 << 20).rows(), 1);
}

}  // namespace
}  // namespace headscope::probe
