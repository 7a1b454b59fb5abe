#include "report/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/layer_names.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TextTable a_table() {
  return {.columns = {{"layer", Align::kLeft, 0}, {"dir", Align::kLeft, 1}, {"time"}, {"peak", Align::kRight, 2}},
          .rows = {{"a", "forward", "9 µs", "1 B"}, {"bb", "forward", "10 µs", "2 B"}},
          .last_row = {}};
}

TEST(TextTable, CellsAreAlignedByCharactersNotBytes) {
  EXPECT_EQ(fit(a_table(), 80).text,
            "layer  dir       time  peak\n"
            "───────────────────────────\n"
            "a      forward   9 µs   1 B\n"
            "bb     forward  10 µs   2 B\n");
}

TEST(TextTable, FittingTableLeavesNothingOut) {
  const FittedTable fitted = fit(a_table(), 27);
  EXPECT_THAT(fitted.left_out, IsEmpty());
  EXPECT_THAT(fitted.same_in_all, IsEmpty());
}

TEST(TextTable, ColumnWithOneValueGoesFirstAndIsSaid) {
  const FittedTable fitted = fit(a_table(), 26);
  EXPECT_THAT(fitted.same_in_all, ElementsAre("dir forward"));
  EXPECT_THAT(fitted.left_out, IsEmpty());
}

TEST(TextTable, ThenTheHighestRankGoesAndIsNamed) { EXPECT_THAT(fit(a_table(), 13).left_out, ElementsAre("peak")); }

TEST(TextTable, ColumnsOfRankZeroStayWhateverTheWidth) {
  EXPECT_EQ(fit(a_table(), 1).text,
            "layer   time\n"
            "────────────\n"
            "a       9 µs\n"
            "bb     10 µs\n");
}

TEST(TextTable, ColumnWhoseLastRowDiffersIsNotSaidOfAllRows) {
  TextTable table = a_table();
  table.last_row = {"+ 3", "mixed", "", ""};
  EXPECT_THAT(fit(table, 14).same_in_all, IsEmpty());
}

TEST(TextTable, NoLineIsWiderThanAskedWhenColumnsCanGo) {
  for (std::size_t width = 12; width < 40; ++width) {
    std::istringstream lines(fit(a_table(), width).text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(display_width(line), width);
    }
  }
}

TEST(LayerNames, LongNameKeepsItsFirstSegmentAndItsEnd) {
  EXPECT_EQ(shorten_middle("model.layers.3.self_attn", 18), "model.…3.self_attn");
}

TEST(LayerNames, NameThatFitsIsKept) { EXPECT_EQ(shorten_middle("decoder.3", 9), "decoder.3"); }

TEST(LayerNames, ShortenedNameHasTheLimitsLength) {
  for (std::size_t limit = 3; limit < 24; ++limit) {
    EXPECT_EQ(display_width(shorten_middle("mödel.läyers.3.self_attn", limit)), limit);
  }
}

TEST(LayerNames, NamesThatWouldCollideGetMoreCharacters) {
  EXPECT_THAT(shorten_all({"model.layers.3.self_attn", "model.layers.13.self_attn"}, 18),
              ElementsAre("model.….3.self_attn", "model.…13.self_attn"));
}

TEST(LayerNames, DifferentNamesStayDifferent) {
  EXPECT_THAT(shorten_all({"encoder.1.attention.attention.self", "encoder.2.attention.attention.self"}, 10),
              ElementsAre("encoder.1.attention.attention.self", "encoder.2.attention.attention.self"));
}

TEST(LayerNames, LongListSaysHowManyMore) { EXPECT_EQ(list_names({"a", "a", "b", "c", "d"}, 2), "a, b and 2 more"); }

}  // namespace
}  // namespace headscope::report
