#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include "support/real_traces.h"
#include "timeline/trace/trace_file.h"

namespace headscope::timeline::trace {
namespace {

using records::DeviceSpan;

/// Counted by a script of a few lines that loads the whole file as JSON.
struct Expected {
  const char* file;
  std::size_t ops;
  std::size_t kernels;
  std::size_t device_spans;  ///< kernels, copies and fills
  std::size_t launches;
  std::ptrdiff_t graph_launches;
  std::size_t modules;
  std::size_t steps;
  std::uint64_t events;
  std::int64_t kernel_ns;
  std::size_t threads;
  std::int64_t rank;
  std::int64_t world_size;
  std::ptrdiff_t attention_ops;  ///< of any level of a nest
};

constexpr Expected kExpected[] = {
    {"a100_saf_cudagraph_efficient_28inside1launch", 2, 560, 560, 3, 1, 0, 0, 1170, 49320000, 1, -1, -1, 0},
    {"a100_saf_sdpa_efficient_bias_4layers", 224, 66, 66, 66, 0, 0, 0, 588, 5711000, 1, -1, -1, 8},
    {"a100_saf_sdpa_flash_decoder", 362, 41, 41, 41, 0, 0, 0, 578, 76132000, 1, -1, -1, 12},
    {"a100_vit_compiled_cudagraph_flash_full", 15, 700, 700, 10, 5, 0, 0, 1545, 6214256, 1, -1, -1, 0},
    {"a100x8_megatron_tp8_eager_rank0_full", 5337, 690, 777, 777, 0, 0, 1, 14245, 372581000, 1, 0, 8, 0},
    {"b200_vllm_unified_attention_fmhaSm100_2layers", 302, 48, 56, 56, 0, 0, 0, 574, 654268, 1, 0, 8, 3},
    {"h100_bert_small_sdpa_flash_full", 479, 60, 61, 83, 0, 84, 1, 2551, 307197, 1, -1, -1, 12},
    {"h100_qwen_sdpa_flash_causal_2layers", 246, 61, 70, 66, 0, 17, 0, 982, 2140531, 1, -1, -1, 6},
    {"h100_timesformer_eager_bmm_softmax_1block", 248, 31, 36, 36, 0, 0, 0, 576, 12290557, 1, -1, -1, 0},
    {"h100x8_modded_nanogpt_fa3_rank0_1step", 2202, 633, 829, 829, 0, 0, 1, 6176, 31315962, 2, 0, 8, 40},
    {"rtx3060_efficient_fwd_bwd_cudagraph_1step", 249, 206, 252, 17, 2, 0, 1, 876, 22515595, 2, -1, -1, 0},
    {"rtx3060_efficient_fwd_bwd_dropout_1step", 630, 202, 248, 248, 0, 0, 1, 1859, 22094879, 2, -1, -1, 16},
};

class RealTrace : public testing::TestWithParam<Expected> {};

TEST_P(RealTrace, HoldsTheOpsLaunchesAndKernelsThatWereCounted) {
  const Expected& expected = GetParam();
  HEADSCOPE_REAL_TRACE(path, expected.file);
  const records::TraceRecording recording = read_trace(path);

  const auto& [spans, launches, captures, dropped, untimed] = recording.device_activity;
  std::size_t kernels = 0;
  std::int64_t kernel_ns = 0;
  for (const DeviceSpan& span : spans) {
    if (span.kind == DeviceSpan::Kind::kKernel) {
      ++kernels;
      kernel_ns += span.end_ns - span.start_ns;
    }
  }
  EXPECT_EQ(recording.ops.size(), expected.ops);
  EXPECT_EQ(kernels, expected.kernels);
  EXPECT_EQ(kernel_ns, expected.kernel_ns);
  EXPECT_EQ(spans.size(), expected.device_spans);
  EXPECT_EQ(launches.size(), expected.launches);
  EXPECT_EQ(std::count_if(launches.begin(), launches.end(), [](const auto& launch) { return launch.of_graph; }),
            expected.graph_launches);
  EXPECT_EQ(recording.modules.size(), expected.modules);
  EXPECT_EQ(recording.steps.size(), expected.steps);
  EXPECT_EQ(recording.events, expected.events);
  EXPECT_EQ(recording.threads.size(), expected.threads);
  EXPECT_EQ(recording.rank, expected.rank);
  EXPECT_EQ(recording.world_size, expected.world_size);
  EXPECT_EQ(recording.platform, records::TracePlatform::kCuda);

  const std::regex attention(
      "aten::_?scaled_dot_product.*|aten::_.*_attention_(forward|backward)|flash_attn_3::.*|vllm::unified_attention.*");
  EXPECT_EQ(std::count_if(recording.ops.begin(), recording.ops.end(),
                          [&](const records::HostOp& op) {
                            const std::string_view name = recording.names[op.name];
                            return std::regex_match(name.begin(), name.end(), attention);
                          }),
            expected.attention_ops);

  std::uint64_t skipped = 0;
  for (const std::uint64_t count : recording.skipped) {
    skipped += count;
  }
  EXPECT_EQ(recording.ops.size() + spans.size() + launches.size() + recording.modules.size() + recording.steps.size() +
                skipped,
            recording.events);
  EXPECT_EQ(recording.skipped_for(records::SkipReason::kMalformed), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, RealTrace, testing::ValuesIn(kExpected),
                         [](const auto& test) { return std::string(test.param.file); });

}  // namespace
}  // namespace headscope::timeline::trace
