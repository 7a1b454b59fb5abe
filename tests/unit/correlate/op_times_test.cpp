#include "correlate/op_times.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace headscope::correlate {
namespace {

using records::Launch;
using records::OpSpan;

Launch launch(std::uint64_t thread, std::int64_t start_ns) {
  return {.correlation = 1, .thread = thread, .start_ns = start_ns, .end_ns = start_ns + 1};
}

OpSpan op(std::uint64_t id, std::uint64_t thread, std::int64_t start_ns, std::int64_t end_ns) {
  return {.op = id, .thread = thread, .system_thread = 1'000 + thread, .span = {start_ns, end_ns}};
}

TEST(NameOpsOf, TheInnermostOpenOpHasTheLaunch) {
  std::vector<Launch> launches = {launch(1, 15), launch(1, 25), launch(1, 45), launch(1, 60)};
  name_ops_of(launches, {op(1, 1, 10, 50), op(2, 1, 20, 30)});
  EXPECT_EQ(launches[0].op, 1U);
  EXPECT_EQ(launches[1].op, 2U);
  EXPECT_EQ(launches[2].op, 1U);
  EXPECT_EQ(launches[3].op, 0U);
}

TEST(NameOpsOf, AnOpEndsBeforeTheLaunchAtItsEnd) {
  std::vector<Launch> launches = {launch(1, 10), launch(1, 20)};
  name_ops_of(launches, {op(1, 1, 10, 20)});
  EXPECT_EQ(launches[0].op, 1U);
  EXPECT_EQ(launches[1].op, 0U);
}

TEST(NameOpsOf, ThreadsAreApartAndGetTheSystemsNumbers) {
  std::vector<Launch> launches = {launch(2, 15), launch(1, 15), launch(3, 15), launch(2, 5), launch(2, 99)};
  name_ops_of(launches, {op(7, 2, 10, 20), op(6, 1, 10, 20)});
  EXPECT_EQ(launches[0].op, 7U);
  EXPECT_EQ(launches[0].thread, 1'002U);
  EXPECT_EQ(launches[1].op, 6U);
  EXPECT_EQ(launches[1].thread, 1'001U);
  EXPECT_EQ(launches[2].op, 0U);
  EXPECT_EQ(launches[2].thread, 0U);
  // Outside of ops, but on a thread that has some: glue of a chain.
  EXPECT_EQ(launches[3].thread, 1'002U);
  EXPECT_EQ(launches[4].thread, 1'002U);
}

TEST(NameOpsOf, AnOpThatDidNotEndIsOpenToTheLast) {
  std::vector<Launch> launches = {launch(1, 1'000'000)};
  name_ops_of(launches, {op(1, 1, 10, 0)});
  EXPECT_EQ(launches[0].op, 1U);
}

}  // namespace
}  // namespace headscope::correlate
