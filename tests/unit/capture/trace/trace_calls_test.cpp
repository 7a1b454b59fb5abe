#include "capture/trace/trace_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capture/layers.h"
#include "support/trace_text.h"

namespace headscope::capture::trace {
namespace {

using records::Causal;
using records::Geometry;
using test_support::an_event;
using test_support::recording_of;
using test_support::trace_of;
using testing::ElementsAre;
using testing::SizeIs;

TraceCalls calls_in(const std::vector<std::string>& events) {
  return calls_of(recording_of(trace_of(events), {.keep_inputs = wants_inputs}));
}

std::string on_thread(std::string event, int thread) {
  return event.replace(event.find("\"tid\":1"), 7, "\"tid\":" + std::to_string(thread));
}

std::string inputs(const std::string& dims, const std::string& concrete = {}, const std::string& strides = {}) {
  return "\"Input Dims\":" + dims + ",\"Input type\":[\"float\",\"float\",\"float\",\"float\"]" +
         (concrete.empty() ? "" : ",\"Concrete Inputs\":" + concrete) +
         (strides.empty() ? "" : ",\"Input Strides\":" + strides);
}

const std::string kSdpaInputs =
    inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16],[],[],[],[],[]]", R"(["","","","","0.","True","","False"])");
const std::string kSdpaFlashInputs =
    inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16],[],[],[],[]]", R"(["","","","0.5","True","False",""])");
const std::string kFlashInputs = inputs("[[2,8,4,16],[2,8,4,16],[2,8,4,16],[],[],[],[],[],[],[],[]]",
                                        R"(["","","","","","8","8","0.","True","False",""])");

TEST(TraceCalls, OfOpsInEachOtherTheInnermostIsTheCallAndTheOutermostItsSpan) {
  const TraceCalls calls =
      calls_in({an_event("cpu_op", "aten::scaled_dot_product_attention", "1", "9", kSdpaInputs),
                an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "2", "7", kSdpaFlashInputs),
                an_event("cpu_op", "aten::_flash_attention_forward", "3", "5", kFlashInputs)});
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_EQ(calls.calls[0].call.op->name, "aten::_flash_attention_forward");
  EXPECT_EQ(calls.calls[0].call.geometry, (Geometry{2, 4, 4, 8, 8, 16, 16}));
  EXPECT_EQ(calls.calls[0].whole, (records::HostSpan{1000, 10000}));
}

TEST(TraceCalls, TheSameOpInItselfCountsOnceWithTheInnerShapes) {
  const std::string wrong = inputs("[[1,1,8,16],[1,1,8,16],[1,1,8,16],[],[],[],[]]");
  const TraceCalls calls =
      calls_in({an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9", wrong),
                an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "2", "7", kSdpaFlashInputs)});
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_EQ(calls.calls[0].call.geometry.batch, 2);
}

TEST(TraceCalls, OpsAfterEachOtherAreCallsOfTheirOwn) {
  const TraceCalls calls =
      calls_in({an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9", kSdpaFlashInputs),
                an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "10", "9", kSdpaFlashInputs)});
  EXPECT_THAT(calls.calls, SizeIs(2));
}

TEST(TraceCalls, CausalAndDropoutComeFromTheRecordedValues) {
  const TraceCalls calls =
      calls_in({an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9", kSdpaFlashInputs)});
  EXPECT_EQ(calls.calls.at(0).call.causal, Causal::kUpperLeft);
  EXPECT_TRUE(calls.calls.at(0).call.has_dropout);
  EXPECT_EQ(calls.calls.at(0).call.mask, records::MaskState::kNone);
}

TEST(TraceCalls, WithoutRecordedValuesACallMayBeMasked) {
  const TraceCalls calls = calls_in({an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9",
                                              inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16],[],[],[],[]]"))});
  EXPECT_EQ(calls.calls.at(0).call.mask, records::MaskState::kUnseen);
}

TEST(TraceCalls, AnOpWithoutShapesIsACallOfUnknownGeometry) {
  const TraceCalls calls = calls_in({an_event("cpu_op", "flash_attn_3::fwd", "1", "9")});
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_EQ(calls.without_shapes, 1U);
  EXPECT_EQ(calls.calls[0].call.geometry, Geometry{});
  EXPECT_TRUE(calls.calls[0].call.lengths_unknown);
}

TEST(TraceCalls, StridesTellBroadcastHeads) {
  const TraceCalls calls = calls_in(
      {an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9",
                inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16],[],[],[],[]]", R"(["","","","0.","False","False",""])",
                       "[[512,128,16,1],[128,0,16,1],[128,0,16,1],[],[],[],[]]"))});
  EXPECT_EQ(calls.calls.at(0).call.q.elements, 1024U);
  EXPECT_EQ(calls.calls.at(0).call.k.elements, 256U);
}

TEST(TraceCalls, ArgumentsMovedBetweenVersionsAreFoundByTheirNumber) {
  const std::string with_max_k = inputs("[[2,8,4,16],[2,8,4,16],[2,8,4,16],[],[],[],[],[],[],[],[],[],[],[]]",
                                        R"(["","","","","","","","","0.5","1","True","","",""])");
  const std::string older = inputs("[[2,8,4,16],[2,8,4,16],[2,8,4,16],[],[],[],[],[],[],[],[],[],[]]",
                                   R"(["","","","","","","","0.5","1","False","","",""])");
  for (const std::string& args : {with_max_k, older}) {
    const TraceCalls calls = calls_in({an_event("cpu_op", "aten::_efficient_attention_forward", "1", "9", args)});
    EXPECT_EQ(calls.calls.at(0).call.causal, Causal::kUpperLeft);
    EXPECT_TRUE(calls.calls.at(0).call.has_dropout);
  }
}

std::vector<std::string> an_eager_chain(int start, const std::string& softmax_args = {}) {
  const auto at = [start](int offset) { return std::to_string(start + offset); };
  return {an_event("cpu_op", "aten::bmm", at(0), "2", inputs("[[8,5,16],[8,16,7]]")),
          an_event("cpu_op", "aten::softmax", at(4), "3", inputs("[[2,4,5,7],[],[]]")),
          an_event("cpu_op", "aten::_softmax", at(5), "1",
                   inputs("[[2,4,5,7],[],[]]", R"(["","-1","False"])") + softmax_args),
          an_event("cpu_op", "aten::bmm", at(8), "2", inputs("[[8,5,7],[8,7,16]]"))};
}

TEST(TraceCalls, ProductsAroundASoftmaxAreOneCallOfThreeOps) {
  const TraceCalls calls = calls_in(an_eager_chain(1));
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_EQ(calls.calls[0].call.op->name, "bmm+softmax+bmm");
  EXPECT_EQ(calls.calls[0].call.geometry, (Geometry{2, 4, 4, 5, 7, 16, 16}));
  EXPECT_EQ(calls.calls[0].whole, (records::HostSpan{1000, 11000}));
  EXPECT_THAT(calls.calls[0].ops, ElementsAre(records::HostSpan{1000, 3000}, records::HostSpan{6000, 7000},
                                              records::HostSpan{9000, 11000}));
}

TEST(TraceCalls, OpsThatTookNoTimeStillHaveASpan) {
  const std::string inputs_of_softmax = inputs("[[2,4,5,7],[],[]]");
  const TraceCalls calls = calls_in({an_event("cpu_op", "aten::bmm", "1", "0", inputs("[[8,5,16],[8,16,7]]")),
                                     an_event("cpu_op", "aten::_softmax", "2", "0", inputs_of_softmax),
                                     an_event("cpu_op", "aten::bmm", "3", "0", inputs("[[8,5,7],[8,7,16]]"))});
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_THAT(calls.calls[0].ops, SizeIs(3));
}

TEST(TraceCalls, AChainInsideOfTheCompositeOpTakesItsArguments) {
  std::vector<std::string> events = an_eager_chain(2);
  events.push_back(
      an_event("cpu_op", "aten::scaled_dot_product_attention", "1", "20",
               inputs("[[2,4,5,16],[2,4,7,16],[2,4,7,16],[],[],[],[],[]]", R"(["","","","","0.","True","","False"])")));
  const TraceCalls calls = calls_in(events);
  ASSERT_THAT(calls.calls, SizeIs(1));
  EXPECT_EQ(calls.calls[0].call.op->variant, "sdpa_math");
  EXPECT_EQ(calls.calls[0].call.causal, Causal::kUpperLeft);
  EXPECT_EQ(calls.calls[0].call.mask, records::MaskState::kNone);
}

TEST(TraceCalls, ProductsInsideOfAFusedOpAreNoChain) {
  std::vector<std::string> events = an_eager_chain(2);
  events.push_back(an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "20", kSdpaFlashInputs));
  EXPECT_THAT(calls_in(events).calls, SizeIs(1));
}

TEST(TraceCalls, ASoftmaxWithoutASecondProductIsUnfinished) {
  std::vector<std::string> events = an_eager_chain(1);
  events.pop_back();
  const TraceCalls calls = calls_in(events);
  EXPECT_THAT(calls.calls, SizeIs(0));
  EXPECT_EQ(calls.unfinished_chains, 1U);
}

std::string a_forward(int start, const std::string& args = {}) {
  return an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", std::to_string(start), "9",
                  kSdpaFlashInputs + args);
}

std::vector<std::string> a_backward(int start, int sequence) {
  const auto at = [start](int offset) { return std::to_string(start + offset); };
  return {on_thread(an_event("cpu_op", "autograd::engine::evaluate_function: Backward0", at(0), "9",
                             "\"Sequence number\":" + std::to_string(sequence) + ",\"Fwd thread id\":1"),
                    2),
          on_thread(an_event("cpu_op", "aten::_scaled_dot_product_flash_attention_backward", at(1), "5",
                             inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16],[2,4,8,16],[2,4,8,16],[2,4,8]]")),
                    2)};
}

TEST(TraceCalls, ABackwardIsLinkedByItsSequenceNumber) {
  std::vector<std::string> events{a_forward(1, ",\"Sequence number\":5"), a_forward(20, ",\"Sequence number\":6")};
  for (const int sequence : {5, 6}) {
    for (std::string& event : a_backward(100 * sequence, sequence)) {
      events.push_back(std::move(event));
    }
  }
  const TraceCalls calls = calls_in(events);
  ASSERT_THAT(calls.calls, SizeIs(4));
  EXPECT_EQ(calls.calls[2].call.direction, Direction::kBackward);
  EXPECT_EQ(calls.calls[2].call.forward_call_id, 1U);
  EXPECT_EQ(calls.calls[3].call.forward_call_id, 2U);
  EXPECT_EQ(calls.calls[3].call.layer, calls.calls[1].call.layer);
}

TEST(TraceCalls, ANumberThatTwoThreadsHaveLinksNothing) {
  std::vector<std::string> events{a_forward(1, ",\"Sequence number\":5"),
                                  on_thread(a_forward(1, ",\"Sequence number\":5"), 3)};
  for (std::string& event : a_backward(100, 5)) {
    events.push_back(std::move(event));
  }
  const TraceCalls calls = calls_in(events);
  EXPECT_EQ(calls.calls.at(2).call.forward_call_id, 0U);
  EXPECT_EQ(calls.calls.at(2).call.layer.order, records::LayerRef::kUnknownOrder);
}

TEST(TraceCalls, AForwardInABackwardPassIsARecompute) {
  std::vector<std::string> events{a_forward(1)};
  events.push_back(on_thread(
      an_event("cpu_op", "CheckpointFunctionBackward", "100", "50", "\"Sequence number\":9,\"Fwd thread id\":1"), 2));
  events.push_back(on_thread(a_forward(101, ",\"Sequence number\":20"), 2));
  for (std::string& event : a_backward(120, 20)) {
    events.push_back(std::move(event));
  }
  const TraceCalls calls = calls_in(events);
  ASSERT_THAT(calls.calls, SizeIs(3));
  EXPECT_EQ(calls.calls[1].call.direction, Direction::kRecompute);
  EXPECT_EQ(calls.calls[1].call.forward_call_id, 1U);
  EXPECT_EQ(calls.calls[2].call.direction, Direction::kBackward);
  EXPECT_EQ(calls.calls[2].call.forward_call_id, 1U) << "of a recompute, the forward that it repeats";
}

TEST(TraceCalls, AnEagerBackwardFindsItsForwardByTheSoftmax) {
  std::vector<std::string> events = an_eager_chain(1, ",\"Sequence number\":5");
  const auto node = [](int start, int sequence, const std::string& length) {
    return an_event("cpu_op", "autograd::engine::evaluate_function: Backward0", std::to_string(start), length,
                    "\"Sequence number\":" + std::to_string(sequence) + ",\"Fwd thread id\":1");
  };
  const std::vector<std::string> backward{
      node(100, 6, "30"),
      an_event("cpu_op", "aten::bmm", "101", "2", inputs("[[8,7,5],[8,5,16]]", {}, "[[35,1,7],[80,16,1]]")),
      an_event("cpu_op", "aten::bmm", "111", "2", inputs("[[8,5,16],[8,16,7]]")),
      node(140, 5, "9"),
      an_event("cpu_op", "aten::_softmax_backward_data", "141", "2",
               inputs("[[2,4,5,7],[2,4,5,7],[],[]]", R"(["","","-1","6"])")),
      node(150, 4, "30"),
      an_event("cpu_op", "aten::bmm", "151", "2", inputs("[[8,16,5],[8,5,7]]", {}, "[[80,1,16],[35,7,1]]")),
      an_event("cpu_op", "aten::bmm", "161", "2", inputs("[[8,5,7],[8,7,16]]"))};
  for (const std::string& event : backward) {
    events.push_back(on_thread(event, 2));
  }
  const TraceCalls calls = calls_in(events);
  ASSERT_THAT(calls.calls, SizeIs(2));
  EXPECT_EQ(calls.calls[1].call.direction, Direction::kBackward);
  EXPECT_EQ(calls.calls[1].call.forward_call_id, 1U);
  EXPECT_EQ(calls.calls[1].call.geometry, calls.calls[0].call.geometry);
  EXPECT_EQ(calls.calls[1].whole.end_ns, 163'000);
}

TEST(TraceCalls, TheInnermostModuleAroundTheWholeCallIsItsLayer) {
  const TraceCalls calls = calls_in({an_event("python_function", "nn.Module: Model_0", "0", "100"),
                                     an_event("python_function", "nn.Module: Attention_3", "1", "50"),
                                     an_event("python_function", "nn.Module: Dropout_1", "2", "2"), a_forward(5)});
  const LayerInfo* info = layer_info(calls.calls.at(0).call.layer.label);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->name, "Attention_3");
}

TEST(TraceCalls, WithoutModulesALayerIsTheOrderOnItsThread) {
  const TraceCalls calls = calls_in({a_forward(1), a_forward(20), on_thread(a_forward(1), 2)});
  EXPECT_EQ(calls.calls.at(0).call.layer, (records::LayerRef{0, 0, 0}));
  EXPECT_EQ(calls.calls.at(1).call.layer, (records::LayerRef{0, 0, 1}));
  EXPECT_EQ(calls.calls.at(2).call.layer, (records::LayerRef{0, 1, 0}));
}

TEST(TraceCalls, NamesThatOnlySoundLikeAttentionAreNoCalls) {
  const std::string args = inputs("[[2,4,8,16],[2,4,8,16],[2,4,8,16]]");
  EXPECT_THAT(calls_in({an_event("cpu_op", "triton_per_fused__flash_attn_backward__unsafe_view_10", "1", "2", args),
                        an_event("cpu_op", "gdn_attention_core", "4", "2", args),
                        an_event("cpu_op", "_C_cache_ops::reshape_and_cache_flash", "7", "2", args)})
                  .calls,
              SizeIs(0));
}

TEST(TraceCalls, SizesThatNoTensorHasAreNoShapes) {
  const TraceCalls calls =
      calls_in({an_event("cpu_op", "aten::_scaled_dot_product_flash_attention", "1", "9",
                         inputs("[[4611686018427387904,4611686018427387904,2,2],[2,4,8,16],[2,4,8,-16]]"))});
  EXPECT_EQ(calls.without_shapes, 1U);
}

}  // namespace
}  // namespace headscope::capture::trace
