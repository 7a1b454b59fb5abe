#include "session/order_bases.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace headscope::session {
namespace {

TEST(OrderBases, NumbersCallsFromTheLastBase) {
  OrderBases bases;
  bases.reset(10);
  bases.push(14);
  EXPECT_EQ(bases.number(15), 1U);
}

TEST(OrderBases, CallOfAnEarlierStepKeepsItsNumber) {
  OrderBases bases;
  bases.reset(10);
  bases.push(14);
  EXPECT_EQ(bases.number(12), 2U);
}

TEST(OrderBases, CallBeforeTheStartHasNoNumber) {
  OrderBases bases;
  bases.reset(10);
  EXPECT_EQ(bases.number(9), std::nullopt);
}

TEST(OrderBases, CallBeforeTheOldestKeptStepHasNoNumber) {
  OrderBases bases;
  bases.reset(0);
  for (std::uint64_t step = 1; step <= OrderBases::kSteps; ++step) {
    bases.push(step);
  }
  EXPECT_EQ(bases.number(0), std::nullopt);
}

TEST(OrderBases, StepsWithoutCallsTakeNoPlace) {
  OrderBases bases;
  bases.reset(0);
  for (std::uint64_t step = 1; step <= 10 * OrderBases::kSteps; ++step) {
    bases.push(5);
  }
  EXPECT_EQ(bases.number(3), 3U);
}

}  // namespace
}  // namespace headscope::session
