// Real traces against the values that were followed by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "headscope/error.h"
#include "headscope/trace.h"
#include "support/real_traces.h"

namespace headscope {
namespace {

using Times = std::vector<std::int64_t>;

/// Calls of one variant and direction.
struct Calls {
  std::uint64_t count = 0;
  Count flops = 0;
  Count flops_dense = 0;
  Count bytes = 0;
  Times time_ns;  ///< of each call, ascending
  std::int64_t glue_ns = 0;
  std::int64_t other_ns = 0;
};

Calls calls_of(const Stats& stats, const std::string& variant, Direction direction = Direction::kForward) {
  Calls found;
  for (const CallRow& call : stats.calls) {
    if (call.variant == variant && call.direction == direction) {
      ++found.count;
      found.flops += call.flops.value_or(0);
      found.flops_dense += call.flops_dense.value_or(0);
      found.bytes += call.bytes.value_or(0);
      found.time_ns.push_back(call.time ? call.time->count() : -1);
    }
  }
  for (const AttentionRow& row : stats.attention_breakdown) {
    if (row.variant == variant && row.direction == direction) {
      found.glue_ns += row.glue.value_or(Nanoseconds(0)).count();
      found.other_ns += row.other.value_or(Nanoseconds(0)).count();
    }
  }
  std::ranges::sort(found.time_ns);
  return found;
}

std::int64_t sum(const Times& times) {
  std::int64_t total = 0;
  for (const std::int64_t time : times) {
    total += time;
  }
  return total;
}

Stats read(const std::string& path) { return read_trace(path, {.keep_calls = 1000}); }

TEST(ReadTrace, QwenOnH100) {
  HEADSCOPE_REAL_TRACE(path, "h100_qwen_sdpa_flash_causal_2layers");
  const Stats stats = read(path);
  const Calls calls = calls_of(stats, "sdpa_flash");
  EXPECT_EQ(calls.count, 2U);
  EXPECT_EQ(calls.flops, 2 * Count{10'257'694'720});
  EXPECT_EQ(calls.flops_dense, 2 * Count{20'478'754'816});
  EXPECT_EQ(calls.bytes, 2 * Count{73'269'248});
  EXPECT_EQ(calls.time_ns, (Times{112'736, 115'711}));
  EXPECT_EQ(calls_of(stats, "flash").count, 2U);  // their launch is not in the trace
  EXPECT_GE(stats.diagnostics.kernels_unmatched, 4U);
  for (const CallRow& call : stats.calls) {
    if (call.variant == "sdpa_flash") {
      EXPECT_TRUE(call.causal);
      EXPECT_EQ(call.dtype, "bfloat16");
      EXPECT_EQ(call.device, "cuda:0");
      EXPECT_EQ(call.time_source, TimeSource::kDevice);
      EXPECT_EQ((std::vector{call.batch, call.heads, call.q_len, call.kv_len, call.head_dim}),
                (std::vector<std::int64_t>{16, 16, 559, 559, 64}));
    } else {
      EXPECT_FALSE(call.flops.has_value());
      EXPECT_FALSE(call.host.has_value());
    }
  }
}

TEST(ReadTrace, BertOnH100) {
  HEADSCOPE_REAL_TRACE(path, "h100_bert_small_sdpa_flash_full");
  const Stats stats = read(path);
  const Calls calls = calls_of(stats, "sdpa_flash");
  EXPECT_EQ(calls.count, 4U);
  EXPECT_EQ(calls.flops, 4 * Count{40'716'288});
  EXPECT_EQ(calls.bytes, 4 * Count{577'536});
  EXPECT_NEAR(static_cast<double>(sum(calls.time_ns)), 37'400, 50);
  std::map<std::string, std::uint64_t> layers;
  for (const AttentionRow& row : stats.attention_breakdown) {
    layers[row.layer] += row.calls;
  }
  EXPECT_EQ(layers.size(), 4U) << "each in a module of its own";
}

TEST(ReadTrace, TimeSformerOnH100) {
  HEADSCOPE_REAL_TRACE(path, "h100_timesformer_eager_bmm_softmax_1block");
  const Stats stats = read(path);
  const Calls calls = calls_of(stats, "eager");
  EXPECT_EQ(calls.count, 2U);
  EXPECT_EQ(calls.time_ns, (Times{40'831 + 7'679 + 109'568, 1'917'142 + 5'765'601 + 1'714'327}));
  EXPECT_NEAR(static_cast<double>(calls.glue_ns), 62'800 + 1'348'300, 100);
  bool spatial_seen = false;
  for (const CallRow& call : stats.calls) {
    if (call.q_len == 3137) {
      spatial_seen = true;
      EXPECT_EQ(call.flops, Count{241'846'738'944});
      EXPECT_EQ(call.bytes, Count{154'189'824});
      EXPECT_EQ(call.kernels.size(), 3U + static_cast<std::size_t>(std::ranges::count(call.kernels, std::string("glue"),
                                                                                      &CallKernelRow::part)));
    }
  }
  EXPECT_TRUE(spatial_seen);
}

TEST(ReadTrace, SegmentAnythingWithBiasOnA100) {
  HEADSCOPE_REAL_TRACE(path, "a100_saf_sdpa_efficient_bias_4layers");
  const Calls calls = calls_of(read(path), "sdpa_efficient");
  EXPECT_EQ(calls.count, 4U);
  EXPECT_EQ(calls.flops, 4 * Count{4'917'248'000});
  EXPECT_EQ(calls.bytes, 4 * Count{50'176'000 + 30'732'800});
  ASSERT_EQ(calls.time_ns.size(), 4U);
  EXPECT_EQ((calls.time_ns[1] + calls.time_ns[2]) / 2, 184'000);
}

TEST(ReadTrace, SegmentAnythingDecoderOnA100) {
  HEADSCOPE_REAL_TRACE(path, "a100_saf_sdpa_flash_decoder");
  const Calls calls = calls_of(read(path), "sdpa_flash");
  EXPECT_EQ(calls.time_ns, (Times{208'000, 208'000, 4'514'000, 7'007'000}));
}

TEST(ReadTrace, GraphOfSegmentAnythingOnA100) {
  HEADSCOPE_REAL_TRACE(path, "a100_saf_cudagraph_efficient_28inside1launch");
  const Stats stats = read(path);
  const Calls calls = calls_of(stats, "efficient");
  EXPECT_EQ(calls.count, 28U);
  EXPECT_EQ(sum(calls.time_ns), 5'137'000);
  EXPECT_EQ(stats.total.calls, 28U);
  EXPECT_FALSE(stats.total.flops.has_value());
}

TEST(ReadTrace, CompiledVitInGraphsOnA100) {
  HEADSCOPE_REAL_TRACE(path, "a100_vit_compiled_cudagraph_flash_full");
  const Calls calls = calls_of(read(path), "flash");
  EXPECT_EQ(calls.count, 60U);
  EXPECT_NEAR(static_cast<double>(sum(calls.time_ns)), 906'300, 50);
}

TEST(ReadTrace, EfficientForwardAndBackwardOnRtx3060) {
  HEADSCOPE_REAL_TRACE(path, "rtx3060_efficient_fwd_bwd_dropout_1step");
  const Stats stats = read(path);
  const Calls forward = calls_of(stats, "sdpa_efficient");
  EXPECT_EQ(forward.time_ns, (Times{228'447, 229'150, 230'718, 231'295}));
  EXPECT_EQ(forward.flops, 4 * Count{536'870'912});
  const Calls backward = calls_of(stats, "sdpa_efficient", Direction::kBackward);
  EXPECT_EQ(backward.time_ns, (Times{646'012, 646'044, 685'532, 687'226}));
  EXPECT_EQ(backward.flops, 4 * Count{1'342'177'280});
  std::uint64_t linked = 0;
  std::int64_t main_kernels_ns = 0;
  for (const CallRow& call : stats.calls) {
    if (call.direction == Direction::kBackward) {
      linked += call.forward_call_id ? 1U : 0U;
      EXPECT_EQ(call.kernels.size(), 6U);
      for (const CallKernelRow& kernel : call.kernels) {
        main_kernels_ns += kernel.name.starts_with("fmha_cutlassB") ? kernel.time.count() : 0;
      }
    }
  }
  EXPECT_EQ(linked, 4U);
  EXPECT_NEAR(static_cast<double>(main_kernels_ns), 2'445'800, 50);
  EXPECT_EQ(stats.time.steps, 1);
}

TEST(ReadTrace, GraphsOfATrainingStepOnRtx3060) {
  HEADSCOPE_REAL_TRACE(path, "rtx3060_efficient_fwd_bwd_cudagraph_1step");
  const Stats stats = read(path);
  EXPECT_EQ(calls_of(stats, "efficient").count, 4U);
  EXPECT_NEAR(static_cast<double>(sum(calls_of(stats, "efficient").time_ns)), 939'600, 50);
  const Calls backward = calls_of(stats, "efficient", Direction::kBackward);
  EXPECT_EQ(backward.count, 4U);
  EXPECT_NEAR(static_cast<double>(sum(backward.time_ns)), 2'515'200, 50);
}

TEST(ReadTrace, NanoGptWithFlashAttention3OnH100) {
  HEADSCOPE_REAL_TRACE(path, "h100x8_modded_nanogpt_fa3_rank0_1step");
  const Stats stats = read(path);
  const Calls forward = calls_of(stats, "flash_attn_3");
  EXPECT_EQ(forward.count, 10U);
  EXPECT_NEAR(static_cast<double>(sum(forward.time_ns)), 600'700, 50);
  const Calls backward = calls_of(stats, "flash_attn_3", Direction::kBackward);
  EXPECT_EQ(backward.count, 10U);
  EXPECT_NEAR(static_cast<double>(sum(backward.time_ns)), 2'543'500, 50);
  for (const CallRow& call : stats.calls) {
    EXPECT_FALSE(call.flops.has_value()) << "the lengths are not in the trace";
    EXPECT_EQ(call.kernels.size(), call.direction == Direction::kForward ? 2U : 3U);
  }
  ASSERT_TRUE(stats.meta.trace.has_value());
  EXPECT_EQ(stats.meta.trace->rank, 0);
  EXPECT_EQ(stats.meta.trace->world_size, 8);
}

TEST(ReadTrace, VllmOnB200) {
  HEADSCOPE_REAL_TRACE(path, "b200_vllm_unified_attention_fmhaSm100_2layers");
  const Stats stats = read(path);
  Times times;
  for (const CallRow& call : stats.calls) {
    ASSERT_TRUE(call.time.has_value());
    times.push_back(call.time->count());
    EXPECT_EQ(call.kernels.size(), 2U);
    EXPECT_FALSE(call.flops.has_value());
  }
  ASSERT_EQ(times.size(), 3U);
  std::ranges::sort(times);
  EXPECT_NEAR(static_cast<double>(times[0]), 11'700, 50);
  EXPECT_NEAR(static_cast<double>(times[1] + times[2]), 30'300, 50);
  ASSERT_TRUE(stats.total.other.has_value());
  EXPECT_GT(stats.total.other->count(), 0);  // reshape_and_cache
}

TEST(ReadTrace, MegatronOnA100) {
  HEADSCOPE_REAL_TRACE(path, "a100x8_megatron_tp8_eager_rank0_full");
  const Calls calls = calls_of(read(path), "eager");
  EXPECT_EQ(calls.count, 40U);
  EXPECT_EQ(sum(calls.time_ns), 36'158'000);
}

TEST(ReadTrace, MissingFileSaysSo) { EXPECT_THROW(read_trace("/nowhere/trace.json"), Error); }

TEST(ReadTrace, DecodeNeedsALength) { EXPECT_THROW(read_trace("trace.json", {.decode_max_q = 0}), Error); }

}  // namespace
}  // namespace headscope
