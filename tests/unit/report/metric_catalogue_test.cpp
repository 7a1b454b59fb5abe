#include <gtest/gtest.h>

#include <set>
#include <string>

#include "headscope/metric.h"
#include "source_file.h"
#include "stats_builders.h"

namespace headscope::report {
namespace {

// One decode call over 4096 cached keys: 8 heads of dim 64 in fp32, 16,781,312 bytes, 8,388,608 FLOPs.
AttentionRow decode_call() { return a_row("decoder.0").time_us(1'000).flops(8'388'608).bytes(16'781'312); }

TEST(MetricCatalogue, BandwidthIsBytesMovedPerNanosecond) { EXPECT_DOUBLE_EQ(*gb_per_s(decode_call()), 16.781312); }

TEST(MetricCatalogue, BandwidthCountsMaterialisedBytes) {
  EXPECT_DOUBLE_EQ(*gb_per_s(a_row("a").time_us(1).bytes(3'000, 1'000).build()), 4.0);
}

TEST(MetricCatalogue, UsefulBandwidthLeavesMaterialisedBytesOut) {
  EXPECT_DOUBLE_EQ(*useful_gb_per_s(a_row("a").time_us(1).bytes(3'000, 1'000).build()), 3.0);
}

TEST(MetricCatalogue, IntensityIsFlopsPerByteMoved) { EXPECT_NEAR(*flops_per_byte(decode_call()), 0.49988, 1e-5); }

TEST(MetricCatalogue, ComputeRateIsInTeraflops) { EXPECT_DOUBLE_EQ(*tflop_per_s(decode_call()), 0.008388608); }

TEST(MetricCatalogue, ComputeRateIsUnknownWhereTimeHoldsOtherWork) {
  AttentionRow row = decode_call();
  row.time_is_attention = false;
  EXPECT_FALSE(tflop_per_s(row));
}

TEST(MetricCatalogue, BytesMovedAreUnknownWithoutTheMaterialisedPart) {
  EXPECT_FALSE(bytes_moved(a_row("a").bytes(3'000, std::nullopt).build()));
}

TEST(MetricCatalogue, RatesOfNoTimeAreUnknown) {
  EXPECT_FALSE(gb_per_s(a_row("a").bytes(3'000).build()));
  EXPECT_FALSE(gb_per_s(a_row("a").time_us(0).bytes(3'000).build()));
}

TEST(MetricCatalogue, IntensityOfNoBytesIsUnknown) {
  EXPECT_FALSE(flops_per_byte(a_row("a").flops(8).bytes(0).build()));
}

TEST(MetricCatalogue, UnknownFiguresReadNull) {
  const Figures nothing;
  for (const Metric& metric : metrics()) {
    EXPECT_EQ(metric.read(nothing).is_null(), metric.id != "calls") << metric.id;
  }
}

TEST(MetricCatalogue, IdsAreUnique) {
  std::set<std::string_view> ids;
  for (const Metric& metric : metrics()) {
    EXPECT_TRUE(ids.insert(metric.id).second) << metric.id;
  }
}

TEST(MetricCatalogue, InputsAreEntriesOfTheCatalogue) {
  for (const Metric& metric : metrics()) {
    for (const std::string_view input : metric.inputs) {
      EXPECT_TRUE(input.empty() || find_metric(input) != nullptr) << metric.id << " ← " << input;
    }
  }
}

TEST(MetricCatalogue, DerivedFigureIsAsWeakAsItsWeakestInput) {
  const AttentionRow row = a_row("a").time_us(1).bytes(1, 1).estimated("bytes_materialized");
  EXPECT_EQ(provenance_of(*find_metric("gb_per_s"), row), Provenance::kEstimated);
}

TEST(MetricCatalogue, DerivedFigureIgnoresInputsThatItDoesNotUse) {
  const AttentionRow row = a_row("a").time_us(1).bytes(1, 1).estimated("bytes_materialized");
  EXPECT_EQ(provenance_of(*find_metric("useful_gb_per_s"), row), Provenance::kModelled);
}

TEST(MetricCatalogue, RowOverridesTheCataloguesProvenance) {
  const AttentionRow row = a_row("a").flops(1).estimated("flops");
  EXPECT_EQ(provenance_of(*find_metric("flops"), row), Provenance::kEstimated);
  EXPECT_EQ(provenance_of(*find_metric("flops"), decode_call()), Provenance::kModelled);
}

TEST(MetricCatalogue, EveryIdHasARowInTheDocumentation) {
  const std::string documentation = source_file("docs/metrics.md");
  for (const Metric& metric : metrics()) {
    EXPECT_NE(documentation.find("\n| `" + std::string(metric.id) + "` |"), std::string::npos) << metric.id;
  }
}

TEST(Words, EveryWordOfTheReportsIsDocumented) {
  const std::string documentation = source_file("docs/metrics.md");
  const auto documented = [&documentation](std::string_view word) {
    return documentation.find("`" + std::string(word) + "`") != std::string::npos;
  };
  for (int i = 0; i <= static_cast<int>(Phase::kMixed); ++i) {
    EXPECT_TRUE(documented(to_string(static_cast<Phase>(i)))) << to_string(static_cast<Phase>(i));
  }
  for (int i = 0; i <= static_cast<int>(Direction::kRecompute); ++i) {
    EXPECT_TRUE(documented(to_string(static_cast<Direction>(i))));
  }
  for (int i = 0; i <= static_cast<int>(Provenance::kEstimated); ++i) {
    EXPECT_TRUE(documented(to_string(static_cast<Provenance>(i))));
  }
}

TEST(Words, AreThoseOfTheApi) {
  EXPECT_EQ(to_string(Phase::kChunkedPrefill), "chunked_prefill");
  EXPECT_EQ(to_string(Direction::kRecompute), "recompute");
  EXPECT_EQ(to_string(Provenance::kModelled), "modelled");
  EXPECT_EQ(to_string(TimeSource::kDevice), "device");
}

}  // namespace
}  // namespace headscope::report
