// What a C++ program sees of headscope: real ops on the CPU, through the shared library alone.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "headscope/headscope.h"

namespace headscope {
namespace {

at::Tensor some_heads() { return at::ones({1, 2, 4, 8}); }

void attend(const at::Tensor& x) { at::scaled_dot_product_attention(x, x, x, {}, 0.0, /*is_causal=*/true); }

TEST(PublicApi, ScaledDotProductAttentionIsOneCall) {
  const AttentionProfiler profiler;
  attend(some_heads());
  EXPECT_EQ(profiler.get_stats().total.calls, 1U);
}

TEST(PublicApi, CausalFlopsCountTheAdmittedPairsOnly) {
  const AttentionProfiler profiler;
  attend(some_heads());
  // 2 heads × (1+2+3+4) pairs × 2 × (8+8).
  EXPECT_EQ(profiler.get_stats().total.flops, Count{640});
}

TEST(PublicApi, ValuesWhereFreedKeysWereAreReadToo) {
  const AttentionProfiler profiler;
  const at::Tensor q = at::ones({2, 4, 8});
  at::Tensor k = at::ones({2, 4, 8});
  const at::Tensor weights = at::softmax(at::bmm(q, k.transpose(1, 2)), -1);
  k.reset();
  const at::Tensor v = at::ones({2, 4, 8});  // the allocator gives it what k had
  at::bmm(weights, v);
  EXPECT_EQ(profiler.get_stats().total.bytes, Count{1024});  // Q, K, V and O of 64 floats each
}

TEST(PublicApi, LayerScopeNamesTheRow) {
  const AttentionProfiler profiler;
  {
    const LayerScope scope("decoder.3");
    attend(some_heads());
  }
  const Stats stats = profiler.get_stats();
  ASSERT_EQ(stats.attention_breakdown.size(), 1U);
  EXPECT_EQ(stats.attention_breakdown.front().layer, "decoder.3");
}

TEST(PublicApi, StoppedProfilerSeesNothing) {
  AttentionProfiler profiler;
  profiler.stop();
  attend(some_heads());
  EXPECT_EQ(profiler.get_stats().total.calls, 0U);
}

TEST(PublicApi, ExceptionOfTheOpPassesThrough) {
  const AttentionProfiler profiler;
  EXPECT_THROW(at::scaled_dot_product_attention(some_heads(), at::ones({1, 2, 4, 7}), some_heads()), c10::Error);
}

TEST(PublicApi, VersionOfTorchIsTheOneThatWasBuiltWith) { EXPECT_NE(kTorchVersion, ""); }

}  // namespace
}  // namespace headscope
