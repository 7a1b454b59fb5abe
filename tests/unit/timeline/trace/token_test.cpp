#include "timeline/trace/token.h"

#include <gtest/gtest.h>

namespace headscope::timeline::trace {
namespace {

TEST(TraceToken, MicrosecondsBecomeNanosecondsWithoutADouble) {
  // 1697665587919361.123 has more digits than a double holds
  EXPECT_EQ(nanoseconds_of("1697665587919361.123"), 1697665587919361123);
  EXPECT_EQ(nanoseconds_of("1697665587919361"), 1697665587919361000);
  EXPECT_EQ(nanoseconds_of("914190510072.233"), 914190510072233);
  EXPECT_EQ(nanoseconds_of("0.5"), 500);
  EXPECT_EQ(nanoseconds_of("-2.001"), -2001);
}

TEST(TraceToken, DigitsBelowANanosecondAreRounded) {
  EXPECT_EQ(nanoseconds_of("1.0004"), 1000);
  EXPECT_EQ(nanoseconds_of("1.0005"), 1001);
  EXPECT_EQ(nanoseconds_of("1.00049999999999999999999999999999999999999999999"), 1000);
  EXPECT_EQ(nanoseconds_of("0.9999999"), 1000);
}

TEST(TraceToken, ExponentsShiftTheDecimals) {
  EXPECT_EQ(nanoseconds_of("1.6976655879193611e15"), 1697665587919361100);
  EXPECT_EQ(nanoseconds_of("25E-1"), 2500);
  EXPECT_EQ(nanoseconds_of("1e+2"), 100000);
  EXPECT_EQ(nanoseconds_of("0e999999999"), 0);
  EXPECT_EQ(nanoseconds_of("5e-999999999"), 0);
}

TEST(TraceToken, QuotedNumbersAreNumbers) {
  EXPECT_EQ(nanoseconds_of("\"12.5\" "), 12500);
  EXPECT_EQ(integer_of(" \"7\" "), 7);
}

TEST(TraceToken, TimesBeyondTheRangeAreNone) {
  EXPECT_EQ(nanoseconds_of("4611686018427387.903"), (std::int64_t{1} << 62) - 1);
  EXPECT_EQ(nanoseconds_of("4611686018427387.904"), std::nullopt);
  EXPECT_EQ(nanoseconds_of("99999999999999999999999999999999999999999999999999"), std::nullopt);
  EXPECT_EQ(nanoseconds_of("1e300"), std::nullopt);
  EXPECT_EQ(nanoseconds_of("1e99999999999999999999"), std::nullopt);
}

TEST(TraceToken, WhatIsNoNumberIsNone) {
  for (const char* token : {"", "-", ".", "e5", "1e", "1x", "1.2.3", "nan", "inf", "true", "null", "[1]", "\"\""}) {
    EXPECT_EQ(nanoseconds_of(token), std::nullopt) << token;
    EXPECT_EQ(integer_of(token), std::nullopt) << token;
  }
  EXPECT_EQ(integer_of("1.5"), std::nullopt);
  EXPECT_EQ(integer_of("9223372036854775808"), std::nullopt);
}

}  // namespace
}  // namespace headscope::timeline::trace
