#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "headscope/report.h"
#include "report/row_tables.h"
#include "report/utf8.h"
#include "source_file.h"
#include "stats_builders.h"

namespace headscope::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TextReport, SmallModelReadsAsTheGoldenReport) {
  EXPECT_EQ(to_text(a_small_model(), {.heads_of = "*.0.*"}), source_file("tests/data/report_small_model.txt"));
}

TEST(TextReport, FitsTheWidthOfTheTerminal) {
  for (const std::size_t width : {80U, 100U, 120U, 200U}) {
    std::istringstream lines(to_text(a_small_model(), {.heads_of = "*", .width = width}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(display_width(line), width) << line;
    }
  }
}

TEST(TextReport, LeftOutColumnsAreNamed) {
  EXPECT_THAT(to_text(a_small_model(), {.width = 80}), HasSubstr("left out to fit 80 columns: scores, peak"));
}

TEST(TextReport, RowsBeyondTheLimitAreSummedInOne) {
  EXPECT_THAT(to_text(a_small_model(), {.max_rows = 2, .width = 200}), HasSubstr("\n+ 2 more rows  "));
}

TEST(TextReport, RowsWithMostTimeAreShown) {
  EXPECT_THAT(to_text(a_small_model(), {.max_rows = 2, .width = 200}), Not(HasSubstr("model.…0.self_attn")));
}

TEST(TextReport, SumOfHiddenRowsIsExact) {
  const TextTable table = layer_table(a_small_model(), 2);
  // 2 × 600 µs of 6 ms; 2 × 9,437,184 bytes in 1.2 ms.
  const std::vector<std::string> expected = {"+ 2 more rows", "",      "",     "",     "",       "12",  "–",
                                             "1.20 ms",       "20.0%", "15.7", "5.33", "0.0839", "0 B", "0 B"};
  EXPECT_EQ(table.last_row, expected);
}

TEST(TextReport, WithoutCallsItSaysWhatToCheck) {
  const std::string text = to_text(Stats{});
  EXPECT_THAT(text, HasSubstr("no attention was seen"));
  EXPECT_THAT(text, HasSubstr("Did the model run between start and stop"));
}

TEST(TextReport, WithoutCallsItNamesOptionsThatHideThem) {
  Stats stats;
  stats.meta.options.eager = Eager::kOff;
  EXPECT_THAT(to_text(stats), HasSubstr("eager: off"));
}

TEST(TextReport, HostTimeOfAnotherDeviceIsNotPassedOffAsDeviceTime) {
  Stats stats = stats_of({a_row("a").device("cuda:0").time_us(5)});
  stats.diagnostics.device_timing_reason = "no device clock";
  EXPECT_THAT(to_text(stats),
              HasSubstr("time on cuda:0 is host time (wall time of the ops), not device time: no device clock"));
}

TEST(TextReport, TimeThatHoldsOtherWorkIsSaid) {
  const Stats stats = stats_of({a_row("a").op("my_lib::unified").time_us(5).flops(1).time_holds_other_work()});
  EXPECT_THAT(to_text(stats), HasSubstr("time of my_lib::unified holds work besides attention"));
}

TEST(TextReport, MaskThatWasNotCountedIsSaid) {
  EXPECT_THAT(to_text(stats_of({a_row("decoder.0").mask("opaque")})),
              HasSubstr("mask opaque: FLOPs count every pair as admitted: decoder.0"));
}

TEST(TextReport, CountersThatAreZeroAreNotMentioned) {
  EXPECT_THAT(to_text(stats_of({a_row("a")})), Not(HasSubstr("calls raised an error")));
}

TEST(TextReport, GlobThatMatchesNoHeadSaysSo) {
  EXPECT_THAT(to_text(a_small_model(), {.heads_of = "decoder.*"}),
              HasSubstr("no heads of a layer that matches decoder.*"));
}

TEST(TextReport, LayerNameThatIsNoUtf8IsShownWithReplacements) {
  EXPECT_THAT(to_text(stats_of({a_row("a\xFF")})), HasSubstr("a\xEF\xBF\xBD"));
}

TEST(ShapeText, SharedKeyValueHeadsStandInBrackets) {
  EXPECT_EQ(shape_text(a_row("a").shape(2, 8, 1, 64).kv_heads(2).kv_len({129, 256, 192.5})), "2×8(2)×1→129–256×64");
}

TEST(ShapeText, OtherValueDimIsSaid) {
  AttentionRow row = a_row("a").shape(1, 4, 16, 24);
  row.head_dim_v = 12;
  EXPECT_EQ(shape_text(row), "1×4×16→16×24/12");
}

TEST(TextReport, LargestRiseOfMemoryNamesItsLayerAndCause) {
  Stats stats = stats_of({a_row("a")});
  stats.memory.spikes.push_back(
      {.layer = "model.layers.2.self_attn", .variant = "sdpa_math", .bytes = 33'554'432, .cause = "score_matrix"});
  EXPECT_THAT(to_text(stats),
              HasSubstr("largest rise of memory 33.6 MB in model.layers.2.self_attn (sdpa_math, forward), "
                        "mostly score matrix\n"));
}

TEST(TextReport, PeakOfTheScopeIsSaidPerDevice) {
  Stats stats = stats_of({a_row("a")});
  stats.memory.devices.push_back({.device = "cpu", .peak_bytes = 2'000'000});
  EXPECT_THAT(to_text(stats), HasSubstr("scope peak on cpu 2.00 MB"));
}

TEST(TextReport, ShareOfRecomputedFlopsIsSaid) {
  Stats stats = stats_of({a_row("a")});
  stats.time.recompute_flops_share = 0.25;
  EXPECT_THAT(to_text(stats), HasSubstr("25.0% of FLOPs recomputed"));
}

}  // namespace
}  // namespace headscope::report
