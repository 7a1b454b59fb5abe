// MeetsBudget on real calls, as a user's test has it.

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headscope/headscope.h"
#include "headscope/testing.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

using ::testing::Not;

Stats one_causal_call() {
  const AttentionProfiler profiler;
  const LayerScope scope("decoder.3");
  attend(some_heads(), true);
  return profiler.get_stats();
}

TEST(MeetsBudget, OfFlopsWorkedByHand) {
  EXPECT_THAT(one_causal_call(), MeetsBudget({.layer = "decoder.*", .max_call_flops = 640}));
}

TEST(MeetsBudget, NotWhenOneFlopIsTooMany) {
  EXPECT_THAT(one_causal_call(), Not(MeetsBudget({.layer = "decoder.*", .max_call_flops = 639})));
}

TEST(MeetsBudget, NotWhenNoLayerMatches) {
  EXPECT_THAT(one_causal_call(), Not(MeetsBudget({.layer = "encoder.*", .max_call_flops = 640})));
}

TEST(MeetsBudget, NotWithoutTheFusedKernel) {
  at::globalContext().setSDPUseFlash(false);
  const Stats stats = one_causal_call();
  at::globalContext().setSDPUseFlash(true);
  EXPECT_THAT(stats, Not(MeetsBudget({.forbid_variants = {"sdpa_math"}})));
}

TEST(MeetsBudget, WithTheFusedKernel) {
  EXPECT_THAT(one_causal_call(), MeetsBudget({.variant = "sdpa_flash", .max_score_bytes = 0}));
}

TEST(MeetsBudget, OfTimeWithTooFewSamplesIsNotMet) {
  EXPECT_THAT(one_causal_call(), Not(MeetsBudget({.max_p50_us = 1e9})));
}

}  // namespace
}  // namespace headscope::torch_tests
