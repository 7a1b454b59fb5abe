#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "capture/layers.h"
#include "capture/trace/trace_calls.h"
#include "model/work.h"
#include "support/real_traces.h"
#include "timeline/trace/trace_file.h"

/// Values followed by hand from each op of the trace.
namespace headscope::capture::trace {
namespace {

using records::AttentionCall;
using records::Causal;
using records::Geometry;
using testing::Each;
using testing::SizeIs;

TraceCalls calls_in(const std::string& path) {
  return calls_of(timeline::trace::read_trace(path, {.keep_inputs = wants_inputs}));
}

std::vector<AttentionCall> of_direction(const TraceCalls& calls, Direction direction) {
  std::vector<AttentionCall> found;
  for (const TraceCall& call : calls.calls) {
    if (call.call.direction == direction) {
      found.push_back(call.call);
    }
  }
  return found;
}

std::vector<std::string_view> variants_of(const TraceCalls& calls) {
  std::vector<std::string_view> variants;
  for (const TraceCall& call : calls.calls) {
    variants.push_back(call.call.op->variant);
  }
  return variants;
}

/// Device time of what was launched inside of each of the call's ops.
std::vector<std::int64_t> device_ns(const records::TraceRecording& recording, const TraceCall& call) {
  std::vector<std::int64_t> times;
  for (const records::HostSpan& op : call.ops) {
    std::int64_t& time = times.emplace_back(0);
    for (const records::Launch& launch : recording.device_activity.launches) {
      if (launch.thread != call.thread || launch.start_ns < op.start_ns || launch.start_ns >= op.end_ns) {
        continue;
      }
      for (const records::DeviceSpan& span : recording.device_activity.spans) {
        time += span.correlation == launch.correlation ? span.end_ns - span.start_ns : 0;
      }
    }
  }
  return times;
}

TEST(CallsOfRealTraces, LaunchesInsideOfTheOpsLeadToTheKernels) {
  HEADSCOPE_REAL_TRACE(qwen, "h100_qwen_sdpa_flash_causal_2layers");
  const records::TraceRecording fused = timeline::trace::read_trace(qwen);
  const TraceCalls flash = calls_of(fused);
  EXPECT_THAT(device_ns(fused, flash.calls.at(0)), testing::ElementsAre(115'711));
  EXPECT_THAT(device_ns(fused, flash.calls.at(1)), testing::ElementsAre(112'736));

  HEADSCOPE_REAL_TRACE(timesformer, "h100_timesformer_eager_bmm_softmax_1block");
  const records::TraceRecording eager = timeline::trace::read_trace(timesformer);
  const TraceCalls chains = calls_of(eager);
  EXPECT_THAT(device_ns(eager, chains.calls.at(0)), testing::ElementsAre(40'831, 7'679, 109'568));
  EXPECT_THAT(device_ns(eager, chains.calls.at(1)), testing::ElementsAre(1'917'142, 5'765'601, 1'714'327));

  HEADSCOPE_REAL_TRACE(training, "rtx3060_efficient_fwd_bwd_dropout_1step");
  const records::TraceRecording step = timeline::trace::read_trace(training);
  std::vector<std::int64_t> times;
  for (const TraceCall& call : calls_of(step).calls) {
    times.push_back(device_ns(step, call).at(0));
  }
  EXPECT_THAT(times, testing::ElementsAre(231'295, 230'718, 229'150, 228'447, 646'012, 646'044, 687'226, 685'532));

  HEADSCOPE_REAL_TRACE(megatron, "a100x8_megatron_tp8_eager_rank0_full");
  const records::TraceRecording full = timeline::trace::read_trace(megatron);
  std::int64_t total = 0;
  for (const TraceCall& call : calls_of(full).calls) {
    for (const std::int64_t time : device_ns(full, call)) {
      total += time;
    }
  }
  EXPECT_EQ(total, 36'158'000);
}

TEST(CallsOfRealTraces, QwenRunsTwoCausalFlashCalls) {
  HEADSCOPE_REAL_TRACE(path, "h100_qwen_sdpa_flash_causal_2layers");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(2));
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.op->variant, "sdpa_flash");
    EXPECT_EQ(call.call.geometry, (Geometry{16, 16, 16, 559, 559, 64, 64}));
    EXPECT_NE(call.call.causal, Causal::kNone);
    EXPECT_EQ(call.call.dtype, records::DType::kBFloat16);
    EXPECT_EQ(call.call.device, (records::Device{records::DeviceType::kCuda, 0}));
    const records::CostedCall cost = model::cost(call.call, 1);
    EXPECT_EQ(cost.flops, 10'257'694'720U);
    EXPECT_EQ(cost.flops_dense, 20'478'754'816U);
    EXPECT_EQ(cost.bytes, 73'269'248U);
  }
}

TEST(CallsOfRealTraces, BertsLayersAreThoseOfItsModules) {
  HEADSCOPE_REAL_TRACE(path, "h100_bert_small_sdpa_flash_full");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(4));
  int layer = 0;
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.geometry, (Geometry{1, 8, 8, 141, 141, 64, 64}));
    EXPECT_EQ(call.call.causal, Causal::kNone);
    const records::CostedCall cost = model::cost(call.call, 1);
    EXPECT_EQ(cost.flops, 40'716'288U);
    EXPECT_EQ(cost.bytes, 577'536U);
    const LayerInfo* info = layer_info(call.call.layer.label);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->name, "BertSdpaSelfAttention_" + std::to_string(layer++));
  }
}

TEST(CallsOfRealTraces, TimesformersTwoEagerChainsAreFound) {
  HEADSCOPE_REAL_TRACE(path, "h100_timesformer_eager_bmm_softmax_1block");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(2));
  EXPECT_EQ(calls.calls[0].call.geometry, (Geometry{3136, 12, 12, 8, 8, 64, 64}));
  EXPECT_EQ(calls.calls[1].call.geometry, (Geometry{8, 12, 12, 3137, 3137, 64, 64}));
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.op->variant, "eager");
    EXPECT_THAT(call.ops, SizeIs(3));
  }
  const records::CostedCall cost = model::cost(calls.calls[1].call, 1);
  EXPECT_EQ(cost.flops, 241'846'738'944U);
  EXPECT_EQ(cost.bytes, 154'189'824U);
}

TEST(CallsOfRealTraces, SegmentAnythingsEncoderHasABias) {
  HEADSCOPE_REAL_TRACE(path, "a100_saf_sdpa_efficient_bias_4layers");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(4));
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.op->variant, "sdpa_efficient");
    EXPECT_EQ(call.call.geometry, (Geometry{25, 16, 16, 196, 196, 80, 80}));
    EXPECT_EQ(call.call.mask_bytes, 30'732'800U);
    const records::CostedCall cost = model::cost(call.call, 1);
    EXPECT_EQ(cost.flops, 4'917'248'000U);
    EXPECT_EQ(cost.bytes, 50'176'000U + 30'732'800U);
  }
}

TEST(CallsOfRealTraces, SegmentAnythingsDecoderCrosses) {
  HEADSCOPE_REAL_TRACE(path, "a100_saf_sdpa_flash_decoder");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(4));
  std::multiset<std::pair<std::int64_t, std::int64_t>> lengths;
  for (const TraceCall& call : calls.calls) {
    const Geometry& geometry = call.call.geometry;
    lengths.emplace(geometry.q_len, geometry.kv_len);
    if (geometry.q_len != geometry.kv_len) {
      const records::CostedCall cost = model::cost(call.call, 1);
      EXPECT_EQ(cost.flops, 15'032'385'536U);
      EXPECT_EQ(cost.bytes, 2'151'153'664U);
      EXPECT_EQ(geometry.head_dim, 16);
    } else {
      EXPECT_EQ(geometry, (Geometry{1024, 8, 8, 7, 7, 32, 32}));
    }
  }
  EXPECT_EQ(lengths, (std::multiset<std::pair<std::int64_t, std::int64_t>>{{7, 7}, {7, 7}, {7, 4096}, {4096, 7}}));
}

TEST(CallsOfRealTraces, GraphsHaveNoCalls) {
  for (const char* name : {"a100_saf_cudagraph_efficient_28inside1launch", "a100_vit_compiled_cudagraph_flash_full",
                           "rtx3060_efficient_fwd_bwd_cudagraph_1step"}) {
    HEADSCOPE_REAL_TRACE(path, name);
    EXPECT_THAT(calls_in(path).calls, SizeIs(0)) << name;
  }
}

TEST(CallsOfRealTraces, TheBackwardOnAnotherThreadFindsItsForward) {
  HEADSCOPE_REAL_TRACE(path, "rtx3060_efficient_fwd_bwd_dropout_1step");
  const TraceCalls calls = calls_in(path);
  const std::vector<AttentionCall> forward = of_direction(calls, Direction::kForward);
  const std::vector<AttentionCall> backward = of_direction(calls, Direction::kBackward);
  ASSERT_THAT(forward, SizeIs(4));
  ASSERT_THAT(backward, SizeIs(4));
  for (const AttentionCall& call : forward) {
    EXPECT_EQ(call.geometry, (Geometry{4, 8, 8, 256, 256, 64, 64}));
    EXPECT_TRUE(call.has_dropout);
    EXPECT_EQ(call.dtype, records::DType::kFloat32);
    EXPECT_EQ(model::cost(call, 1).flops, 536'870'912U);
  }
  std::vector<std::uint64_t> forwards;
  for (const AttentionCall& call : backward) {
    EXPECT_TRUE(call.has_dropout);
    EXPECT_EQ(model::cost(call, 1).flops, 1'342'177'280U);
    forwards.push_back(call.forward_call_id);
  }
  EXPECT_THAT(forwards,
              testing::ElementsAre(forward[3].call_id, forward[2].call_id, forward[1].call_id, forward[0].call_id));
}

TEST(CallsOfRealTraces, FlashAttention3IsPackedAndItsLengthsUnknown) {
  HEADSCOPE_REAL_TRACE(path, "h100x8_modded_nanogpt_fa3_rank0_1step");
  const TraceCalls calls = calls_in(path);
  EXPECT_THAT(variants_of(calls), Each("flash_attn_3"));
  const std::vector<AttentionCall> forward = of_direction(calls, Direction::kForward);
  const std::vector<AttentionCall> backward = of_direction(calls, Direction::kBackward);
  ASSERT_THAT(forward, SizeIs(10));
  ASSERT_THAT(backward, SizeIs(10));
  std::vector<std::int64_t> windows;
  for (const AttentionCall& call : forward) {
    EXPECT_EQ(call.causal, Causal::kLowerRight);
    EXPECT_EQ(call.geometry.heads, 6);
    EXPECT_EQ(call.geometry.head_dim, 128);
    EXPECT_TRUE(call.lengths_unknown);
    EXPECT_TRUE(call.kv_packed);
    EXPECT_EQ(model::cost(call, 1).flops, std::nullopt);
    windows.push_back(call.window.left);
  }
  EXPECT_THAT(windows, testing::ElementsAre(128, 128, 128, 384, 128, 128, 128, 128, 128, 384));
  for (const AttentionCall& call : backward) {
    ASSERT_NE(call.forward_call_id, 0U);
    const AttentionCall& linked = calls.calls[call.forward_call_id - 1].call;
    EXPECT_EQ(linked.window, call.window);
    EXPECT_EQ(linked.direction, Direction::kForward);
  }
}

TEST(CallsOfRealTraces, VllmsCachedLengthsAreUnknown) {
  HEADSCOPE_REAL_TRACE(path, "b200_vllm_unified_attention_fmhaSm100_2layers");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(3));
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.op->variant, "vllm");
    EXPECT_EQ(call.call.dtype, records::DType::kFloat8);
    EXPECT_EQ(call.call.geometry.q_len, 888);
    EXPECT_EQ(call.call.geometry.heads, 8);
    EXPECT_EQ(call.call.geometry.kv_heads, 1);
    EXPECT_EQ(model::cost(call.call, 1).flops, std::nullopt);
  }
}

TEST(CallsOfRealTraces, MegatronsChainsHaveASoftmaxOfTheirOwn) {
  HEADSCOPE_REAL_TRACE(path, "a100x8_megatron_tp8_eager_rank0_full");
  const TraceCalls calls = calls_in(path);
  ASSERT_THAT(calls.calls, SizeIs(40));
  EXPECT_THAT(variants_of(calls), Each("eager"));
  for (const TraceCall& call : calls.calls) {
    EXPECT_EQ(call.call.geometry, (Geometry{1, 32, 32, 2048, 2048, 64, 64}));
    EXPECT_EQ(call.call.causal, Causal::kUpperLeft);
    EXPECT_THAT(call.ops, SizeIs(3));
    EXPECT_EQ(model::cost(call.call, 1).flops_dense, 4ULL * 32 * 2048 * 2048 * 64);
  }
}

}  // namespace
}  // namespace headscope::capture::trace
