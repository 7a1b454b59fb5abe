#include "report/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "json_reader.h"

namespace headscope::report {
namespace {

using Object = Value::Object;
using List = Value::List;

TEST(JsonWriter, NullAndBooleansAreWords) {
  EXPECT_EQ(write_json(List{Value(), true, false}, -1), "[null,true,false]");
}

TEST(JsonWriter, ObjectIsIndentedByLevel) {
  EXPECT_EQ(write_json(Object{{"a", List{1, 2}}, {"b", List{}}, {"c", Object{}}}, 2),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": [],\n  \"c\": {}\n}");
}

TEST(JsonWriter, NegativeIndentIsASingleLine) {
  EXPECT_EQ(write_json(Object{{"a", 1}, {"b", 2}}, -1), R"({"a":1,"b":2})");
}

TEST(JsonWriter, LargestExactIntegerIsANumber) {
  EXPECT_EQ(write_json(std::int64_t{9'007'199'254'740'992}, -1), "9007199254740992");
}

TEST(JsonWriter, IntegerAboveTwoToThe53IsADecimalString) {
  EXPECT_EQ(write_json(std::uint64_t{9'007'199'254'740'993}, -1), "\"9007199254740993\"");
}

TEST(JsonWriter, LargeNegativeIntegerIsADecimalString) {
  EXPECT_EQ(write_json(std::int64_t{-9'007'199'254'740'993}, -1), "\"-9007199254740993\"");
}

TEST(JsonWriter, CountOf128BitsKeepsEveryDigit) {
  EXPECT_EQ(write_json(~Count{0}, -1), "\"340282366920938463463374607431768211455\"");
}

TEST(JsonWriter, NotANumberAndInfinitiesAreNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(write_json(List{std::nan(""), infinity, -infinity}, -1), "[null,null,null]");
}

TEST(JsonWriter, WholeDoubleKeepsItsPoint) { EXPECT_EQ(write_json(List{1.0, -0.0, 1e300}, -1), "[1.0,-0.0,1e+300]"); }

TEST(JsonWriter, QuotesBackslashesAndControlCharactersAreEscaped) {
  EXPECT_EQ(write_json(std::string("\"\\\b\f\n\r\t\x01\x1f\x7f"), -1), "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
}

TEST(JsonWriter, NulInsideAStringIsEscaped) { EXPECT_EQ(write_json(std::string("a\0b", 3), -1), "\"a\\u0000b\""); }

TEST(JsonWriter, KeysAreEscapedAsStringsAre) { EXPECT_EQ(write_json(Object{{"a\"b", 1}}, -1), R"({"a\"b":1})"); }

TEST(JsonWriter, ValidUtf8IsKept) { EXPECT_EQ(write_json("QKᵀ → 😀", -1), "\"QKᵀ → 😀\""); }

TEST(JsonWriter, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(write_json(std::string("a\xFFz"), -1), "\"a\xEF\xBF\xBDz\"");
}

TEST(JsonWriter, OverlongFormsAndSurrogatesAreReplaced) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(write_json(std::string("\xC0\xAF"), -1), '"' + replaced + replaced + '"');
  EXPECT_EQ(write_json(std::string("\xED\xA0\x80"), -1), '"' + replaced + replaced + replaced + '"');
}

Value random_value(std::mt19937& random, int depth) {
  const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  switch (below(depth > 0 ? 7 : 5)) {
    case 0:
      return {};
    case 1:
      return below(2) == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - (std::int64_t{1} << 31);
    case 3:
      return std::ldexp(static_cast<double>(random()) + 0.1, static_cast<int>(below(200)) - 100);
    case 4: {
      std::string text;
      for (std::uint32_t i = below(8); i > 0; --i) {
        text += static_cast<char>(below(128));
      }
      return text;
    }
    case 5: {
      List list;
      for (std::uint32_t i = below(4); i > 0; --i) {
        list.push_back(random_value(random, depth - 1));
      }
      return list;
    }
    default: {
      Object object;
      for (std::uint32_t i = below(4); i > 0; --i) {
        object.emplace_back("k" + std::to_string(i), random_value(random, depth - 1));
      }
      return object;
    }
  }
}

TEST(JsonWriter, AnyValueReadsBackEqual) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same values in every run
  for (int i = 0; i < 2'000; ++i) {
    const Value value = random_value(random, 4);
    ASSERT_EQ(JsonReader::read(write_json(value, i % 4 - 1)), value);
  }
}

}  // namespace
}  // namespace headscope::report
