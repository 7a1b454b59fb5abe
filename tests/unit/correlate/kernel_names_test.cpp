#include "correlate/kernel_names.h"

#include <gtest/gtest.h>

namespace headscope::correlate {
namespace {

using Kind = KernelName::Kind;

struct Case {
  const char* name;
  Kind kind;
  const char* family;
  Direction direction = Direction::kForward;
};

/// As traces and the libraries' sources have them, shortened.
constexpr Case kCases[] = {
    {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<32, 128>>", Kind::kAttention,
     "flash"},
    {"void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", Kind::kAttention, "flash"},
    {"void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>", Kind::kHelper, "flash"},
    {"_ZN13pytorch_flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI", Kind::kAttention, "flash",
     Direction::kBackward},
    {"void pytorch_flash::flash_bwd_dot_do_o_kernel<true>", Kind::kHelper, "flash", Direction::kBackward},
    {"void "
     "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90>>>",
     Kind::kAttention, "flash"},
    {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<>>>", Kind::kAttention, "flash",
     Direction::kBackward},
    {"void cutlass::device_kernel<flash::FlashAttnBwdPostprocessConvertdQ<>>", Kind::kHelper, "flash",
     Direction::kBackward},
    {"void flash::prepare_varlen_num_blocks_kernel<8, false>", Kind::kHelper, "flash"},
    {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<>::Params)", Kind::kAttention,
     "efficient"},
    {"fmha_cutlassB_f32_aligned_64x64_k64_dropout_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<>::Params)",
     Kind::kAttention, "efficient", Direction::kBackward},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", Kind::kAttention, "cudnn"},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7", Kind::kAttention, "cudnn",
     Direction::kBackward},
    {"fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", Kind::kAttention,
     "trtllm"},
    {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<>", Kind::kAttention, "flashinfer"},
    {"triton_tem_fused_flex_attention_0", Kind::kAttention, "flex"},
    {"triton_tem_fused_flex_attention_backward_1", Kind::kAttention, "flex", Direction::kBackward},

    {"triton_per_fused__flash_attn_backward__unsafe_view_mul_10", Kind::kNoAttention, ""},
    {"triton_poi_fused__scaled_dot_product_flash_attention_4", Kind::kNoAttention, ""},
    {"triton_red_fused_flex_attention_backward_3", Kind::kNoAttention, ""},
    {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", Kind::kNoAttention, ""},
    {"BatchQKApplyRotaryPosIdsCosSinCacheKernel", Kind::kNoAttention, ""},
    {"gdn_attention_core", Kind::kNoAttention, ""},
    {"void (anonymous namespace)::softmax_warp_forward<>", Kind::kNoAttention, ""},
    {"ampere_bf16_s16816gemm_bf16_128x128", Kind::kNoAttention, ""},
    {"", Kind::kNoAttention, ""},
};

TEST(KernelNames, AreReadAsTheirLibrariesMeanThem) {
  for (const Case& known : kCases) {
    const KernelName read = read_kernel_name(known.name);
    EXPECT_EQ(read.kind, known.kind) << known.name;
    EXPECT_EQ(read.family, known.family) << known.name;
    EXPECT_EQ(read.direction, known.direction) << known.name;
  }
}

}  // namespace
}  // namespace headscope::correlate
