#include "aggregate/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace headscope::aggregate {
namespace {

struct Distribution {
  std::string name;
  std::function<double(std::mt19937_64&)> draw;
};

std::vector<std::int64_t> samples_of(const Distribution& distribution, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> samples(count);
  std::ranges::generate(samples, [&] {
    return std::clamp<std::int64_t>(std::llround(distribution.draw(random)), 1, QuantileSketch::kLargest);
  });
  return samples;
}

QuantileSketch sketch_of(const std::vector<std::int64_t>& samples) {
  QuantileSketch sketch;
  for (const std::int64_t sample : samples) {
    sketch.add(sample);
  }
  return sketch;
}

constexpr double kQuantiles[] = {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0};

std::int64_t exact_quantile(std::vector<std::int64_t> samples, double quantile) {
  std::ranges::sort(samples);
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(quantile * static_cast<double>(samples.size()))));
  return samples[rank - 1];
}

class QuantileSketchError : public testing::TestWithParam<Distribution> {};

TEST_P(QuantileSketchError, RoundedEstimateIsWithinOnePercentOfTheSortedSample) {
  const auto samples = samples_of(GetParam(), 20'000, 7);
  const QuantileSketch sketch = sketch_of(samples);
  for (const double quantile : kQuantiles) {
    const auto exact = static_cast<double>(exact_quantile(samples, quantile));
    EXPECT_LE(std::abs(std::round(sketch.quantile(quantile)) - exact), 0.01 * exact) << quantile;
  }
}

TEST_P(QuantileSketchError, MergedSketchesEqualTheSketchOfAllSamples) {
  auto samples = samples_of(GetParam(), 2'000, 1);
  const auto more = samples_of(GetParam(), 3'000, 2);
  QuantileSketch merged = sketch_of(samples);
  merged.merge(sketch_of(more));
  samples.insert(samples.end(), more.begin(), more.end());
  const QuantileSketch all = sketch_of(samples);
  for (const double quantile : kQuantiles) {
    EXPECT_EQ(merged.quantile(quantile), all.quantile(quantile)) << quantile;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Distributions, QuantileSketchError,
    testing::Values(
        Distribution{"constant", [](auto&) { return 12'345.0; }},
        Distribution{"small", [](auto& random) { return std::uniform_real_distribution(1.0, 150.0)(random); }},
        Distribution{"uniform", [](auto& random) { return std::uniform_real_distribution(1e3, 1e6)(random); }},
        Distribution{"lognormal", [](auto& random) { return std::lognormal_distribution(11.0, 1.5)(random); }},
        Distribution{"exponential", [](auto& random) { return std::exponential_distribution(1e-7)(random); }},
        Distribution{"pareto",
                     [](auto& random) { return 1e4 / std::pow(1.0 - std::uniform_real_distribution()(random), 1.2); }},
        Distribution{"two_modes",
                     [](auto& random) {
                       return std::bernoulli_distribution(0.1)(random) ? std::normal_distribution(5e7, 1e6)(random)
                                                                       : std::normal_distribution(8e3, 100.0)(random);
                     }}),
    [](const auto& test) { return test.param.name; });

TEST(QuantileSketch, EmptySketchGivesZero) { EXPECT_EQ(QuantileSketch{}.quantile(0.5), 0.0); }

TEST(QuantileSketch, SamplesAboveTheRangeCountAsTheLargest) {
  QuantileSketch sketch;
  sketch.add(QuantileSketch::kLargest * 100);
  EXPECT_NEAR(sketch.quantile(0.5) / static_cast<double>(QuantileSketch::kLargest), 1.0, 0.005);
}

TEST(QuantileSketch, MergingAnEmptySketchChangesNothing) {
  QuantileSketch sketch;
  sketch.add(1'000);
  sketch.merge(QuantileSketch{});
  EXPECT_EQ(sketch.count(), 1U);
}

TEST(QuantileSketch, BucketsStayBoundedOverTheWholeRange) {
  QuantileSketch sketch;
  for (double sample = 1.0; sample < 1e15; sample *= 1.003) {
    sketch.add(static_cast<std::int64_t>(sample));
  }
  EXPECT_LE(sketch.buckets(), QuantileSketch::kBuckets);
}

TEST(QuantileSketch, TimesOfOneKernelNeedFewBuckets) {
  QuantileSketch sketch;
  for (std::int64_t sample = 100'000; sample < 200'000; sample += 7) {
    sketch.add(sample);
  }
  EXPECT_LE(sketch.buckets(), 192U);
}

}  // namespace
}  // namespace headscope::aggregate
