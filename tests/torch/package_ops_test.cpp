// Attention ops of other packages, through their hooks: schemas as the packages have them, kernels that compute
// nothing. FLOPs by hand; D = Dv = 8, so a pair costs 2·(8+8) = 32 forward.

#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "headscope/headscope.h"
#include "torch/attend.h"
#include "torch/stub_ops.h"

namespace headscope::torch_tests {
namespace {

constexpr const char* kFlashVarlen = "flash_attn::_flash_attn_varlen_forward";
constexpr const char* kFlash = "flash_attn::_flash_attn_forward";
constexpr const char* kFlashBackward = "flash_attn::_flash_attn_backward";
constexpr const char* kFlash3 = "flash_attn_3::fwd";
constexpr const char* kVarlen = "torch_attn::_varlen_attn";
constexpr const char* kVllm2 = "_vllm_fa2_C::varlen_fwd";
constexpr const char* kVllm = "vllm::unified_attention_with_output";

TORCH_LIBRARY(flash_attn, library) {
  library.def(
      "_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, SymInt "
      "window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt "
      "max_seqlen_q, SymInt max_seqlen_k, float dropout_p, float softmax_scale, bool causal, SymInt "
      "window_size_left=-1, SymInt window_size_right=-1, float softcap=0., Tensor? alibi_slopes=None, bool "
      "return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None, bool "
      "zero_tensors=False) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "_flash_attn_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor(a!)? "
      "dq, Tensor(b!)? dk, Tensor(c!)? dv, float dropout_p, float softmax_scale, bool causal, SymInt "
      "window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, bool deterministic, Tensor? "
      "rng_state=None) -> Tensor");
}
TORCH_LIBRARY(flash_attn_3, library) {
  library.def(
      "fwd(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new=None, Tensor(v_new!)? v_new=None, Tensor? q_v=None, "
      "Tensor(out!)? out=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? cu_seqlens_k_new=None, "
      "Tensor? seqused_q=None, Tensor? seqused_k=None, int? max_seqlen_q=None, int? max_seqlen_k=None, Tensor? "
      "page_table=None, Tensor? kv_batch_idx=None, Tensor? leftpad_k=None, float? softmax_scale=None, bool "
      "is_causal=False, int window_size_left=-1, int window_size_right=-1, int attention_chunk=0, float "
      "softcap=0.0) -> (Tensor(out!), Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY(torch_attn, library) {
  library.def(
      "_varlen_attn(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor? cu_seq_k, SymInt max_q, SymInt "
      "max_k, bool is_causal=False, float? scale=None, SymInt[]? window_size=None, bool enable_gqa=False, Tensor? "
      "seqused_k=None, Tensor? block_table=None, SymInt? num_splits=None) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY(_vllm_fa2_C, library) {
  library.def(
      "varlen_fwd(Tensor! q, Tensor k, Tensor v, Tensor!? out, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? "
      "seqused_k, Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, int max_seqlen_q, int max_seqlen_k, "
      "float p_dropout, float softmax_scale, bool zero_tensors, bool is_causal, int window_size_left, int "
      "window_size_right, float softcap, bool return_softmax, int num_splits, Generator? gen) -> Tensor[]");
}
TORCH_LIBRARY(vllm, library) {
  library.def(
      "unified_attention_with_output(Tensor query, Tensor key, Tensor value, Tensor(a!) output, str layer_name, "
      "Tensor? output_scale=None, Tensor? output_block_scale=None) -> ()");
}

#define HEADSCOPE_STUB(library, op) \
  library.impl(op, torch::CppFunction::makeFromBoxedFunction<&return_copies_of_the_query>())
TORCH_LIBRARY_IMPL(flash_attn, CPU, library) {
  HEADSCOPE_STUB(library, "_flash_attn_forward");
  HEADSCOPE_STUB(library, "_flash_attn_varlen_forward");
  HEADSCOPE_STUB(library, "_flash_attn_backward");
}
TORCH_LIBRARY_IMPL(flash_attn_3, CPU, library) { HEADSCOPE_STUB(library, "fwd"); }
TORCH_LIBRARY_IMPL(torch_attn, CPU, library) { HEADSCOPE_STUB(library, "_varlen_attn"); }
TORCH_LIBRARY_IMPL(_vllm_fa2_C, CPU, library) { HEADSCOPE_STUB(library, "varlen_fwd"); }
TORCH_LIBRARY_IMPL(vllm, CPU, library) { HEADSCOPE_STUB(library, "unified_attention_with_output"); }
#undef HEADSCOPE_STUB

using Arguments = std::map<std::string, c10::IValue>;

Arguments merged(Arguments base, const Arguments& more) {
  for (const auto& [name, value] : more) {
    base.insert_or_assign(name, value);
  }
  return base;
}

/// 3 queries of 2 heads, 5 keys of 1 head.
Arguments dense(const Arguments& more = {}) {
  return merged({{"q", at::ones({1, 3, 2, 8})},
                 {"k", at::ones({1, 5, 1, 8})},
                 {"v", at::ones({1, 5, 1, 8})},
                 {"window_size_left", -1},
                 {"window_size_right", -1}},
                more);
}

/// Two sequences, of 2 queries and 2 keys, and of 3 queries and 5 keys; 2 heads, 1 of keys.
Arguments packed(const Arguments& more = {}) {
  return merged({{"q", at::ones({5, 2, 8})},
                 {"k", at::ones({7, 1, 8})},
                 {"v", at::ones({7, 1, 8})},
                 {"cu_seqlens_q", integers({0, 2, 5})},
                 {"cu_seqlens_k", integers({0, 2, 7})},
                 {"max_seqlen_q", 3},
                 {"max_seqlen_k", 5},
                 {"window_size_left", -1},
                 {"window_size_right", -1}},
                more);
}

/// The same in a pool of 4 pages of 16 keys, a page a sequence.
Arguments paged(const Arguments& more = {}) {
  return merged(packed({{"k", at::ones({4, 16, 1, 8})},
                        {"v", at::ones({4, 16, 1, 8})},
                        {"block_table", integers({2, 1}).reshape({2, 1})},
                        {"seqused_k", integers({2, 5})}}),
                more);
}

/// The packed sequences under the names of torch's varlen op.
Arguments torch_packed(const Arguments& more = {}) {
  return merged({{"query", at::ones({5, 2, 8})},
                 {"key", at::ones({7, 1, 8})},
                 {"value", at::ones({7, 1, 8})},
                 {"cu_seq_q", integers({0, 2, 5})},
                 {"cu_seq_k", integers({0, 2, 7})}},
                more);
}

struct Case {
  const char* name;
  const char* op;
  Arguments (*arguments)();
  const char* variant;
  std::uint64_t flops;
};

void PrintTo(const Case& shown, std::ostream* out) { *out << shown.name; }

class PackageOp : public ::testing::TestWithParam<Case> {};

TEST_P(PackageOp, FlopsAreThoseWorkedByHand) {
  const AttentionProfiler profiler;
  call_by_name(GetParam().op, GetParam().arguments());
  EXPECT_EQ(profiler.get_stats().total.flops, Count{GetParam().flops});
}

TEST_P(PackageOp, HasItsVariantAndHeads) {
  const AttentionProfiler profiler;
  call_by_name(GetParam().op, GetParam().arguments());
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(row.variant, GetParam().variant);
  EXPECT_EQ(row.heads, 2);
  EXPECT_EQ(row.kv_heads, 1);
}

// Pairs are of one head; there are 2.
INSTANTIATE_TEST_SUITE_P(
    Forward, PackageOp,
    ::testing::Values(
        // 3 × 5
        Case{"Dense", kFlash, [] { return dense(); }, "flash_attn_2", 2 * 15 * 32},
        // the last query sees the last key: 3 + 4 + 5
        Case{"Causal", kFlash, [] { return dense({{"causal", true}}); }, "flash_attn_2", 2 * 12 * 32},
        // each query sees its diagonal's key and the one before
        Case{"CausalWindow", kFlash, [] { return dense({{"causal", true}, {"window_size_left", 1}}); }, "flash_attn_2",
             2 * 6 * 32},
        // diagonals at keys 2, 3, 4: {1,2,3}, {2,3,4}, {3,4}
        Case{"TwoSidedWindow", kFlash, [] { return dense({{"window_size_left", 1}, {"window_size_right", 1}}); },
             "flash_attn_2", 2 * 8 * 32},
        // 2×2 + 3×5
        Case{"Varlen", kFlashVarlen, [] { return packed(); }, "flash_attn_2", 2 * 19 * 32},
        // (1+2) + (3+4+5)
        Case{"CausalVarlen", kFlashVarlen, [] { return packed({{"causal", true}}); }, "flash_attn_2", 2 * 15 * 32},
        // (1+2) + (2+2+2)
        Case{"CausalVarlenWindow", kFlashVarlen, [] { return packed({{"causal", true}, {"window_size_left", 1}}); },
             "flash_attn_2", 2 * 9 * 32},
        // real lengths, not the 16 keys of a page
        Case{"PagedVarlen", kFlashVarlen, [] { return paged(); }, "flash_attn_2", 2 * 19 * 32},
        Case{"Flash3Causal", kFlash3, [] { return dense({{"is_causal", true}}); }, "flash_attn_3", 2 * 12 * 32},
        Case{"Flash3Varlen", kFlash3, [] { return packed({{"is_causal", true}}); }, "flash_attn_3", 2 * 15 * 32},
        // one batch of 3 queries, of whose 5 keys 4 are in use
        Case{"Flash3UsedKeys", kFlash3, [] { return dense({{"seqused_k", integers({4})}}); }, "flash_attn_3",
             2 * 12 * 32},
        Case{"TorchVarlen", kVarlen, [] { return torch_packed(); }, "varlen", 2 * 19 * 32},
        Case{"TorchVarlenCausalWindow", kVarlen,
             [] { return torch_packed({{"is_causal", true}, {"window_size", std::vector<std::int64_t>{1, 0}}}); },
             "varlen", 2 * 9 * 32},
        Case{"VllmPaged", kVllm2, [] { return paged({{"is_causal", true}}); }, "vllm", 2 * 15 * 32}),
    [](const ::testing::TestParamInfo<Case>& parameter) { return std::string(parameter.param.name); });

TEST(PackageOp, BackwardRepeatsTheScores) {
  const AttentionProfiler profiler;
  call_by_name(
      kFlashBackward,
      dense({{"dout", at::ones({1, 3, 2, 8})}, {"out", at::ones({1, 3, 2, 8})}, {"softmax_lse", at::ones({1, 2, 3})}}));
  const Figures total = profiler.get_stats().total;
  EXPECT_EQ(total.flops, Count{30 * 2 * (3 * 8 + 2 * 8)});
  EXPECT_EQ(total.recompute_flops, Count{30 * 2 * 8});
}

TEST(PackageOp, PagedBytesAreThoseOfTheKeysInUse) {
  const AttentionProfiler profiler;
  call_by_name(kVllm2, paged());
  // Q and O: 5 tokens × 2 heads × 8; K and V: 7 tokens × 8; 4 bytes each.
  EXPECT_EQ(profiler.get_stats().total.bytes, Count{4 * (2 * 5 * 2 * 8 + 2 * 7 * 8)});
}

TEST(PackageOp, PageTableTellsHowFullTheCacheIs) {
  const AttentionProfiler profiler;
  call_by_name(kFlashVarlen, paged());
  const KvCacheRow row = profiler.get_stats().kv_cache.at(0);
  EXPECT_EQ(row.kind, KvCacheKind::kPaged);
  EXPECT_EQ(row.blocks, (KvBlocks{.block_size = 16, .total = 4, .used = 2, .slots_written = 2 + 5}));
  EXPECT_EQ(row.block_occupancy, 0.5);
  EXPECT_EQ(row.token_occupancy, 7.0 / 32.0);
  EXPECT_EQ(row.capacity_tokens, 64);
}

TEST(PackageOp, OfAnEngineThatHidesItsCacheHasUnknownWork) {
  const AttentionProfiler profiler;
  call_by_name(kVllm, {{"query", at::ones({5, 2, 8})},
                       {"key", at::ones({5, 1, 8})},
                       {"value", at::ones({5, 1, 8})},
                       {"output", at::ones({5, 2, 8})}});
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(row.calls, 1U);
  EXPECT_EQ(row.flops, std::nullopt);
  EXPECT_FALSE(row.time_is_attention);
}

}  // namespace
}  // namespace headscope::torch_tests
