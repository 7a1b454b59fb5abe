#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "aggregate/pattern_class.h"
#include "aggregate/pattern_section.h"
#include "aggregate/snapshot.h"
#include "model/work.h"
#include "support/builders.h"

namespace headscope::aggregate {
namespace {

using records::HeadSample;
using test_support::a_call;
using test_support::CallBuilder;

/// One row of a head.
HeadSample row(double entropy, double sink = 0.1) {
  HeadSample sample;
  sample.rows = 1;
  sample.entropy = entropy;
  sample.effective_tokens = 10;
  sample.sink_mass = sink;
  sample.local_mass = 0.3;
  sample.keys_95 = 50;
  sample.attended_share = 0.5;
  sample.admitted_keys = 100;
  sample.mass_by_distance[1] = 1;
  return sample;
}

TEST(PatternClassTest, TheFirstBoundThatHolds) {
  EXPECT_EQ(class_of(row(0.96), false), PatternClass::kUniform);
  EXPECT_EQ(class_of(row(0.5, 0.6), false), PatternClass::kSink);
  HeadSample sample = row(0.5);
  EXPECT_EQ(class_of(sample, false), PatternClass::kMixed);
  sample.local_mass = 0.8;
  EXPECT_EQ(class_of(sample, false), PatternClass::kLocal);
  EXPECT_EQ(class_of(sample, true), PatternClass::kMixed);  // there is no distance
  sample.admitted_keys = 40;                                // the nearest 32 are most of them
  EXPECT_EQ(class_of(sample, false), PatternClass::kMixed);
  sample.attended_share = 0.05;
  EXPECT_EQ(class_of(sample, false), PatternClass::kFewTokens);
  sample.attended_share = 0.5;
  sample.keys_95 = 3;
  EXPECT_EQ(class_of(sample, false), PatternClass::kFewTokens);
}

TEST(PatternClassTest, DriftByHand) {
  HeadSample a;
  HeadSample b;
  EXPECT_EQ(drift_between(a, b), std::nullopt);
  a.mass_by_distance[0] = 3;  // numbers of rows may differ
  b.mass_by_distance[0] = 7;
  EXPECT_DOUBLE_EQ(*drift_between(a, b), 0.0);
  b.mass_by_distance = {};
  b.mass_by_distance[5] = 1;
  EXPECT_DOUBLE_EQ(*drift_between(a, b), 1.0);
  // (1, 0) against (1/2, 1/2): M = (3/4, 1/4), JSD = ½·log2(4/3) + ½·(½·log2(2/3) + ½·log2(2)).
  b.mass_by_distance[0] = 1;
  EXPECT_NEAR(*drift_between(a, b), std::sqrt(0.5 * std::log2(4.0 / 3) + 0.25 * std::log2(2.0 / 3) + 0.25), 1e-12);
}

TEST(PatternClassTest, ACollapseNeedsAPatternBefore) {
  const auto at = [](double entropy) { return PatternSums::Point{2 * entropy, 2}; };
  // Head 0 collapses to uniform at 20, after it had a pattern at 10; head 1 was uniform from the start; head 2
  // collapses to one token; head 3 only moves.
  const auto found = collapses({{0, {at(0.97), at(0.99), at(0.5), at(0.5)}},
                                {10, {at(0.6), at(0.99), at(0.4), at(0.2)}},
                                {20, {at(0.96), at(0.98), at(0.01), at(0.8)}},
                                {30, {at(0.6), at(0.99), at(0.0), at(0.5)}},
                                {40, {at(0.99), at(0.99), at(0.0), at(0.5)}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].head, 0U);
  EXPECT_EQ(found[0].step, 20);
  EXPECT_EQ(found[0].last_good_step, 10);
  EXPECT_EQ(found[0].collapsed_to, "uniform");
  EXPECT_DOUBLE_EQ(found[0].entropy_before, 0.6);
  EXPECT_EQ(found[1].head, 2U);
  EXPECT_EQ(found[1].collapsed_to, "one_token");
}

TEST(PatternSumsTest, KeepsFirstAndLastStepWhateverTheOrder) {
  const auto sample = [](double entropy) { return records::PatternSample{{row(entropy)}, false}; };
  PatternSums a;
  a.add(sample(0.3), 20);
  a.add(sample(0.5), 40);
  PatternSums b;
  b.add(sample(0.1), 0);
  b.add(sample(0.7), 40);
  a.merge(b);
  EXPECT_EQ(a.calls(), 4U);
  EXPECT_EQ(a.first().step, 0);
  EXPECT_DOUBLE_EQ(a.first().heads[0].entropy, 0.1);
  EXPECT_EQ(a.last().step, 40);
  EXPECT_DOUBLE_EQ(a.last().heads[0].entropy, 1.2);
  EXPECT_EQ(a.last().heads[0].rows, 2U);
  EXPECT_EQ(a.series().size(), 3U);
}

TEST(PatternSumsTest, ALongRunKeepsBothEndsOfItsSeries) {
  PatternSums sums;
  for (std::int64_t step = 0; step < 5000; ++step) {
    sums.add(records::PatternSample{{row(0.5)}, false}, step);
    ASSERT_LE(sums.series().size(), PatternSums::kMaxPoints);
  }
  EXPECT_EQ(sums.series().begin()->first, 0);
  EXPECT_EQ(sums.series().rbegin()->first, 4999);
  EXPECT_EQ(sums.total()[0].rows, 5000U);
}

class PatternSectionTest : public ::testing::Test {
 protected:
  void add(std::uint32_t layer, std::int64_t step, std::vector<HeadSample> heads,
           records::NotSampled not_sampled = records::NotSampled::kNone) {
    const auto count = static_cast<std::int64_t>(heads.size());
    records::AttentionCall call = a_call().shape(1, std::max<std::int64_t>(count, 1), 2, 4).build();
    if (count > 0) {
      call.pattern_sample =
          std::make_shared<const records::PatternSample>(records::PatternSample{std::move(heads), false});
    }
    call.not_sampled = not_sampled;
    aggregate.add(model::cost(call, 1), {LayerKey::Kind::kNumber, layer}, step);
  }
  [[nodiscard]] Stats stats() const {
    Stats stats;
    fill_stats(aggregate, [](std::uint32_t) { return nullptr; }, stats);
    return stats;
  }

  Aggregate aggregate{Wanted{.patterns_every = 10}};
};

TEST_F(PatternSectionTest, NothingWithoutSamples) {
  add(0, 0, {});
  EXPECT_EQ(stats().patterns, std::nullopt);
}

TEST_F(PatternSectionTest, MeansOfTheSampledSteps) {
  add(0, 0, {row(0.2), row(0.4)});
  add(0, 10, {row(0.4), row(0.99)});
  add(0, 11, {row(0.0), row(0.0)});  // another profiler's step
  const Stats all = stats();
  ASSERT_TRUE(all.patterns);
  EXPECT_EQ(all.patterns->baseline_step, 0);
  EXPECT_EQ(all.patterns->last_step, 10);
  EXPECT_EQ(all.patterns->calls, 2U);
  ASSERT_EQ(all.patterns->heads.size(), 2U);
  const HeadPattern& head = all.patterns->heads[0];
  EXPECT_EQ(head.rows, 2U);
  EXPECT_NEAR(head.entropy, 0.3, 1e-12);
  EXPECT_DOUBLE_EQ(*head.drift, 0.0);
  ASSERT_EQ(all.patterns->alerts.size(), 1U);
  EXPECT_EQ(all.patterns->alerts[0].head, 1);
  EXPECT_EQ(all.patterns->alerts[0].step, 10);
  EXPECT_NEAR(*all.heads[0].entropy, 0.3, 1e-12);
}

TEST_F(PatternSectionTest, CountsWhatWasNotSampledByReason) {
  add(0, 0, {}, records::NotSampled::kPaged);
  add(1, 0, {}, records::NotSampled::kPaged);
  add(1, 0, {}, records::NotSampled::kBudget);
  const Stats all = stats();
  ASSERT_TRUE(all.patterns);
  EXPECT_TRUE(all.patterns->heads.empty());
  ASSERT_EQ(all.patterns->not_sampled.size(), 2U);
  EXPECT_EQ(all.patterns->not_sampled[1].calls, 2U);
  EXPECT_THAT(all.patterns->not_sampled[1].reason, ::testing::HasSubstr("pages"));
}

TEST_F(PatternSectionTest, CachesLearnWhatIsAttended) {
  add(0, 0, {row(0.5), row(0.5)});
  HeadSample sharp = row(0.1);
  sharp.attended_share = 0.1;
  add(1, 0, {sharp, sharp});
  Stats all = stats();
  KvCacheRow whole;
  KvCacheRow layer;
  layer.layer = "attention[1]";
  KvCacheRow unknown;
  unknown.layer = "elsewhere";
  KvCacheRow first;
  first.cache = "numbered";
  first.layer = "0";
  KvCacheRow second = first;
  second.layer = "1";
  KvCacheRow of_other_layers = second;
  of_other_layers.cache = "of one layer";
  all.kv_cache = {whole, layer, unknown, first, second, of_other_layers};
  fill_attended_share(all);
  EXPECT_NEAR(*all.kv_cache[0].attended_share, 0.3, 1e-12);
  EXPECT_NEAR(*all.kv_cache[1].attended_share, 0.1, 1e-12);
  EXPECT_EQ(all.kv_cache[2].attended_share, std::nullopt);
  EXPECT_NEAR(*all.kv_cache[3].attended_share, 0.5, 1e-12);
  EXPECT_NEAR(*all.kv_cache[4].attended_share, 0.1, 1e-12);
  EXPECT_EQ(all.kv_cache[5].attended_share, std::nullopt);
}

}  // namespace
}  // namespace headscope::aggregate
