#include "report/number_text.h"

#include <gtest/gtest.h>

namespace headscope::report {
namespace {

TEST(NumberText, GroupedPutsACommaEveryThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(33'554'432), "33,554,432");
}

TEST(NumberText, ThreeDigitsFollowTheMagnitude) {
  EXPECT_EQ(three_digits(0.49988), "0.500");
  EXPECT_EQ(three_digits(5.333), "5.33");
  EXPECT_EQ(three_digits(15.72), "15.7");
  EXPECT_EQ(three_digits(1234.5), "1234");
  EXPECT_EQ(three_digits(0.0001234), "0.000123");
}

TEST(NumberText, RoundingUpToTheNextPowerKeepsThreeDigits) {
  EXPECT_EQ(three_digits(9.996), "10.0");
  EXPECT_EQ(three_digits(0.9999), "1.00");
}

TEST(NumberText, ZeroAndTinyValuesAreNotRoundedToEachOther) {
  EXPECT_EQ(three_digits(0.0), "0");
  EXPECT_EQ(three_digits(2e-9), "2e-09");
}

TEST(NumberText, BytesHaveDecimalPrefixes) {
  EXPECT_EQ(si(0, "B"), "0 B");
  EXPECT_EQ(si(850, "B"), "850 B");
  EXPECT_EQ(si(4'194'304, "B"), "4.19 MB");
  EXPECT_EQ(si(999'600, "B"), "1.00 MB");
}

TEST(NumberText, DurationTakesTheUnitThatFits) {
  EXPECT_EQ(duration(Nanoseconds(850)), "850 ns");
  EXPECT_EQ(duration(Nanoseconds(12'345)), "12.3 µs");
  EXPECT_EQ(duration(Nanoseconds(999'999)), "1.00 ms");
  EXPECT_EQ(duration(Nanoseconds(1'230'000'000)), "1.23 s");
}

TEST(NumberText, SmallShareIsNotShownAsNothing) {
  EXPECT_EQ(percent(0.412), "41.2%");
  EXPECT_EQ(percent(0.0004), "<0.1%");
  EXPECT_EQ(percent(0.0), "0.0%");
}

}  // namespace
}  // namespace headscope::report
