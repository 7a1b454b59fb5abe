#include "timeline/trace/nest_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace headscope::timeline::trace {
namespace {

/// Length of the first value of `text`, which comes in pieces of `piece` bytes; −1: it does not end.
long length_of(std::string_view text, std::size_t piece) {
  std::string buffer(text);
  buffer.append(NestScan::kSlack, ']');  // must not be looked at
  NestScan scan;
  const char* at = buffer.data();
  for (std::size_t end = 0; end < text.size();) {
    end = std::min(text.size(), end + piece);
    if (const char* close = scan.advance(at, buffer.data() + end, end == text.size())) {
      return close - buffer.data();
    }
    at = scan.stopped();
  }
  return -1;
}

void expect_length(const std::string& value) {
  for (const std::size_t piece : {1, 7, 63, 64, 65, 1000}) {
    EXPECT_EQ(length_of(value + ",{\"", piece), static_cast<long>(value.size())) << value << " in pieces of " << piece;
  }
}

TEST(NestScan, EndsAtTheBracketThatClosesTheFirstOne) {
  expect_length("{}");
  expect_length("[[],[{}]]");
  expect_length("{\"a\":{\"b\":[1,2,{\"c\":3}]}}");
}

TEST(NestScan, BracketsInStringsDoNotCount) { expect_length(R"({"a{[":"}]}]","b":"{{{{"})"); }

TEST(NestScan, EscapedQuotesDoNotEndAString) {
  expect_length(R"({"a":"\"}"})");
  expect_length(R"({"a":"\\"})");
  expect_length(R"({"a":"\\\"}\\"})");
}

TEST(NestScan, EscapesCrossTheBordersOfBlocks) {
  for (std::size_t fill = 40; fill < 140; ++fill) {
    for (const char* tail : {R"(\"}"})", R"(\\"})", R"(\\\"}\\"})", R"(\\\\\\\\\"}"})"}) {
      expect_length("{\"a\":\"" + std::string(fill, 'x') + tail);
    }
  }
}

TEST(NestScan, OddNumbersOfBackslashesOfAnyLength) {
  for (std::size_t count = 1; count < 200; count += 2) {
    expect_length("{\"a\":\"" + std::string(count, '\\') + "\"}\"}");
  }
}

TEST(NestScan, ManyBracketsInOneBlock) { expect_length(std::string(500, '[') + std::string(500, ']')); }

TEST(NestScan, WhatDoesNotEndIsNotFound) {
  for (const std::size_t piece : {1, 64, 1000}) {
    EXPECT_EQ(length_of("{\"a\":[1,2}", piece), -1);
    EXPECT_EQ(length_of("{\"a\":\"}}}", piece), -1);
  }
}

}  // namespace
}  // namespace headscope::timeline::trace
