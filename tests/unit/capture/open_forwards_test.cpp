#include "capture/open_forwards.h"

#include <gtest/gtest.h>

#include <memory>

namespace headscope::capture {
namespace {

const records::OpInfo kOp{"aten::some_attention", "some", records::Kernel::kFused, true};

records::AttentionCall call(std::uint64_t id, std::uint32_t label, std::int64_t length) {
  records::AttentionCall result;
  result.call_id = id;
  result.op = &kOp;
  result.layer.label = label;
  result.geometry = {1, 2, 2, length, length, 8, 8};
  return result;
}

TEST(OpenForwards, RecomputeTakesTheForwardOfItsLayer) {
  const auto forwards = std::make_unique<OpenForwards>();
  forwards->open(call(1, 10, 16));
  forwards->open(call(2, 11, 16));
  EXPECT_EQ(forwards->take(call(9, 10, 16))->call_id, 1U);
}

TEST(OpenForwards, AnotherGeometryRepeatsNothing) {
  const auto forwards = std::make_unique<OpenForwards>();
  forwards->open(call(1, 10, 16));
  EXPECT_FALSE(forwards->take(call(9, 10, 17)));
}

TEST(OpenForwards, UnnamedForwardsAreTakenLastInFirstOut) {
  const auto forwards = std::make_unique<OpenForwards>();
  forwards->open(call(1, 0, 16));
  forwards->open(call(2, 0, 16));
  forwards->take(call(9, 0, 16));
  EXPECT_EQ(forwards->take(call(9, 0, 16))->call_id, 1U);
}

TEST(OpenForwards, ForwardWhoseBackwardRanIsOpenNoLonger) {
  const auto forwards = std::make_unique<OpenForwards>();
  const records::AttentionCall first = call(1, 0, 16);
  forwards->open(first);
  forwards->open(call(2, 0, 16));
  forwards->open(call(3, 0, 16));
  forwards->close(&kOp, first.layer, first.geometry, 2);
  EXPECT_EQ(forwards->take(call(9, 0, 16))->call_id, 3U);
  EXPECT_EQ(forwards->take(call(9, 0, 16))->call_id, 1U);
  EXPECT_FALSE(forwards->take(call(9, 0, 16)));
}

TEST(OpenForwards, OldestAreForgottenWhenMoreAreOpenThanRemembered) {
  const auto forwards = std::make_unique<OpenForwards>();
  for (std::uint64_t id = 1; id <= 100; ++id) {
    forwards->open(call(id, 0, 16));
  }
  std::uint64_t taken = 0;
  std::uint64_t last = 0;
  while (const auto forward = forwards->take(call(999, 0, 16))) {
    last = forward->call_id;
    ++taken;
  }
  EXPECT_EQ(taken, 64U);
  EXPECT_EQ(last, 37U);
}

}  // namespace
}  // namespace headscope::capture
