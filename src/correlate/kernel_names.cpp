#include "correlate/kernel_names.h"

#include <algorithm>

namespace headscope::correlate {
namespace {

using Kind = KernelName::Kind;

constexpr Direction kForward = Direction::kForward;
constexpr Direction kBackward = Direction::kBackward;

struct Pattern {
  std::string_view part;
  std::string_view also = {};  ///< must be in the name too
  Kind kind = Kind::kNoAttention;
  Direction direction = kForward;
  std::string_view family = {};
};

// Inductor names a pointwise or reducing kernel after the ops that it fuses.
constexpr std::string_view kPointwise[] = {"triton_poi_", "triton_per_", "triton_red_", "triton_for_"};

// The first pattern that a name holds decides, so that helpers stand before the kernels whose names theirs contain.
constexpr Pattern kPatterns[] = {
    {.part = "reshape_and_cache"},
    {.part = "otary"},
    {.part = "linear_attention"},
    {.part = "gdn_attention"},

    // flash-attn 2, and torch's copy of it.
    {"flash_fwd_splitkv_combine", {}, Kind::kHelper, kForward, "flash"},
    {"flash_fwd_splitkv_mla", {}, Kind::kAttention, kForward, "flash_mla"},
    {"flash_fwd_mla", {}, Kind::kAttention, kForward, "flash_mla"},
    {"flash_fwd_splitkv", {}, Kind::kAttention, kForward, "flash"},
    {"flash_fwd_kernel", {}, Kind::kAttention, kForward, "flash"},
    {"flash_bwd_dot_do_o", {}, Kind::kHelper, kBackward, "flash"},
    {"flash_bwd_convert", {}, Kind::kHelper, kBackward, "flash"},
    {"flash_bwd_clear", {}, Kind::kHelper, kBackward, "flash"},
    {"flash_bwd_dq_dk_dv", {}, Kind::kAttention, kBackward, "flash"},
    // flash-attn 3.
    {"FlashAttnFwdCombine", {}, Kind::kHelper, kForward, "flash"},
    {"FlashAttnFwdSm", {}, Kind::kAttention, kForward, "flash"},
    {"FlashAttnBwdPreprocess", {}, Kind::kHelper, kBackward, "flash"},
    {"FlashAttnBwdPostprocess", {}, Kind::kHelper, kBackward, "flash"},
    {"FlashAttnBwdSm", {}, Kind::kAttention, kBackward, "flash"},
    {"prepare_varlen_num_blocks", {}, Kind::kHelper, kForward, "flash"},
    // flash-attn 4.
    {"FlashAttentionForwardCombine", {}, Kind::kHelper, kForward, "flash"},
    {"FlashAttentionForwardSm", {}, Kind::kAttention, kForward, "flash"},
    {"FlashAttentionBackwardPreprocess", {}, Kind::kHelper, kBackward, "flash"},
    {"FlashAttentionBackwardPostprocess", {}, Kind::kHelper, kBackward, "flash"},
    {"FlashAttentionBackwardSm", {}, Kind::kAttention, kBackward, "flash"},

    // The memory-efficient kernels of torch and xformers.
    {"fmha_cutlassF", {}, Kind::kAttention, kForward, "efficient"},
    {"fmha_cutlassB", {}, Kind::kAttention, kBackward, "efficient"},

    // cuDNN; TransformerEngine uses it too.
    {"cudnn_generated_fort_native_sdpa", "bprop", Kind::kAttention, kBackward, "cudnn"},
    {"cudnn_generated_fort_native_sdpa", {}, Kind::kAttention, kForward, "cudnn"},
    {"compute_dot_do_o", {}, Kind::kHelper, kBackward, "cudnn"},
    {"convert_dq_to_16bits", {}, Kind::kHelper, kBackward, "cudnn"},

    // FlashInfer.
    {"MergeStates", {}, Kind::kHelper, kForward, "flashinfer"},
    {"PrefillWithKVCache", {}, Kind::kAttention, kForward, "flashinfer"},
    {"PrefillWithPagedKVCache", {}, Kind::kAttention, kForward, "flashinfer"},
    {"PrefillWithRaggedKVCache", {}, Kind::kAttention, kForward, "flashinfer"},
    {"DecodeWithKVCache", {}, Kind::kAttention, kForward, "flashinfer"},
    {"DecodeWithPagedKVCache", {}, Kind::kAttention, kForward, "flashinfer"},
    {"BatchMLAPagedAttention", {}, Kind::kAttention, kForward, "flashinfer"},

    // TensorRT-LLM, which FlashInfer and vLLM use on newer devices.
    {"fmhaSm", {}, Kind::kAttention, kForward, "trtllm"},
    {"fmha_v2_", {}, Kind::kAttention, kForward, "trtllm"},

    // vLLM.
    {"paged_attention_v2_reduce", {}, Kind::kHelper, kForward, "paged"},
    {"paged_attention_v1", {}, Kind::kAttention, kForward, "paged"},
    {"paged_attention_v2", {}, Kind::kAttention, kForward, "paged"},
    {"kernel_paged_attention", {}, Kind::kAttention, kForward, "paged"},
    {"kernel_unified_attention", {}, Kind::kAttention, kForward, "paged"},

    // FlexAttention, compiled.
    {"triton_tem_fused_flex_attention_backward", {}, Kind::kAttention, kBackward, "flex"},
    {"flex_attention_backward", {}, Kind::kAttention, kBackward, "flex"},
    {"flex_attention", {}, Kind::kAttention, kForward, "flex"},
    {"flex_decoding", {}, Kind::kAttention, kForward, "flex"},

    // ROCm: composable kernel, AITER, AOTriton.
    {"FmhaFwdSplitKVCombine", {}, Kind::kHelper, kForward, "ck"},
    {"FmhaFwd", {}, Kind::kAttention, kForward, "ck"},
    {"FmhaBwdOGradDotO", {}, Kind::kHelper, kBackward, "ck"},
    {"FmhaBwdConvertQGrad", {}, Kind::kHelper, kBackward, "ck"},
    {"FmhaBwd", {}, Kind::kAttention, kBackward, "ck"},
    {"fmha_fwd_", {}, Kind::kAttention, kForward, "aiter"},
    {"fmha_bwd_", {}, Kind::kAttention, kBackward, "aiter"},
    {"attn_fwd", {}, Kind::kAttention, kForward, "triton"},
    {"attn_bwd_preprocess", {}, Kind::kHelper, kBackward, "triton"},
    {"attn_bwd", {}, Kind::kAttention, kBackward, "triton"},

    // oneDNN on Intel's devices.
    {"micro_sdpa", {}, Kind::kAttention, kForward, "onednn"},
};

}  // namespace

KernelName read_kernel_name(std::string_view name) noexcept {
  if (std::ranges::any_of(kPointwise, [name](std::string_view prefix) { return name.starts_with(prefix); })) {
    return {};
  }
  for (const Pattern& pattern : kPatterns) {
    if (name.find(pattern.part) != std::string_view::npos &&
        (pattern.also.empty() || name.find(pattern.also) != std::string_view::npos)) {
      return pattern.kind == Kind::kNoAttention
                 ? KernelName{}
                 : KernelName{pattern.kind, pattern.direction, pattern.family, pattern.part};
    }
  }
  return {};
}

}  // namespace headscope::correlate
