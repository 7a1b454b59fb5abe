#include "capture/op_table.h"

#include <optional>
#include <utility>

#include "headscope/error.h"

namespace headscope::capture {
namespace {

using Kind = ElementwiseEvent::Kind;

OpEntry fused(OpRole role, std::string name, std::string variant, Layout layout, bool lower_right) {
  OpEntry entry;
  entry.info = {std::move(name), std::move(variant), records::Kernel::kFused, true};
  entry.role = role;
  entry.layout = layout;
  entry.causal_lower_right = lower_right;
  return entry;
}

/// Torch's own fused ops: [B,H,S,D], causal from the upper left.
OpEntry torch_op(OpRole role, const char* name, const char* variant) {
  return fused(role, std::string("aten::") + name, variant, Layout::kBHSD, false);
}

/// Ops that run their attention as a chain of other ops, unless a fused op is seen inside.
OpEntry composite_op(OpRole role, const char* name, const char* variant, Layout layout) {
  OpEntry entry = fused(role, std::string("aten::") + name, variant, layout, false);
  entry.info.kernel = records::Kernel::kEager;
  return entry;
}

/// flash-attn and its kin: [B,S,H,D] or packed [T,H,D], causal from the lower right.
OpEntry flash_op(OpRole role, std::string name, const char* variant) {
  return fused(role, std::move(name), variant, Layout::kBSHD, true);
}

/// Ops of an inference engine whose cached keys live in a context of the engine.
OpEntry engine_op(std::string name, const char* variant) {
  OpEntry entry = fused(OpRole::kFusedForward, std::move(name), variant, Layout::kTHD, true);
  entry.hidden_cache = true;
  entry.info.time_is_attention = false;
  return entry;
}

OpEntry eager_op(OpRole role, const char* name, Kind kind = Kind::kArithmetic) {
  OpEntry entry;
  entry.info = {std::string("aten::") + name, "eager", records::Kernel::kEager, true};
  entry.role = role;
  entry.elementwise = kind;
  return entry;
}

std::vector<OpEntry> make_table() {
  constexpr auto kForward = OpRole::kFusedForward;
  constexpr auto kBackward = OpRole::kFusedBackward;
  std::vector<OpEntry> table{
      composite_op(OpRole::kComposite, "scaled_dot_product_attention", "sdpa_math", Layout::kBHSD),
      torch_op(kForward, "_scaled_dot_product_flash_attention", "sdpa_flash"),
      torch_op(kForward, "_scaled_dot_product_flash_attention.quantized", "sdpa_flash"),
      torch_op(kBackward, "_scaled_dot_product_flash_attention_backward", "sdpa_flash"),
      torch_op(kForward, "_scaled_dot_product_flash_attention_for_cpu", "sdpa_flash"),
      torch_op(kBackward, "_scaled_dot_product_flash_attention_for_cpu_backward", "sdpa_flash"),
      torch_op(kForward, "_scaled_dot_product_efficient_attention", "sdpa_efficient"),
      torch_op(kBackward, "_scaled_dot_product_efficient_attention_backward", "sdpa_efficient"),
      torch_op(kForward, "_scaled_dot_product_cudnn_attention", "sdpa_cudnn"),
      torch_op(kBackward, "_scaled_dot_product_cudnn_attention_backward", "sdpa_cudnn"),
      torch_op(kForward, "_scaled_dot_product_fused_attention_overrideable", "sdpa_overrideable"),
      torch_op(kBackward, "_scaled_dot_product_fused_attention_overrideable_backward", "sdpa_overrideable"),
      torch_op(kForward, "_triton_scaled_dot_attention", "sdpa_efficient"),

      flash_op(kForward, "aten::_flash_attention_forward", "sdpa_flash"),
      flash_op(kForward, "aten::_flash_attention_forward.quantized", "sdpa_flash"),
      flash_op(kForward, "aten::_flash_attention_forward_no_dropout_inplace", "sdpa_flash"),
      flash_op(kBackward, "aten::_flash_attention_backward", "sdpa_flash"),
      flash_op(kForward, "aten::_efficient_attention_forward", "sdpa_efficient"),
      flash_op(kBackward, "aten::_efficient_attention_backward", "sdpa_efficient"),
      flash_op(kForward, "aten::_cudnn_attention_forward", "sdpa_cudnn"),
      flash_op(kBackward, "aten::_cudnn_attention_backward", "sdpa_cudnn"),
      flash_op(kForward, "torch_attn::_varlen_attn", "varlen"),
      flash_op(kForward, "torch_attn::_varlen_attn_out", "varlen"),
      flash_op(kBackward, "torch_attn::_varlen_attn_backward", "varlen"),

      flash_op(kForward, "flash_attn::_flash_attn_forward", "flash_attn_2"),
      flash_op(kForward, "flash_attn::_flash_attn_varlen_forward", "flash_attn_2"),
      flash_op(kBackward, "flash_attn::_flash_attn_backward", "flash_attn_2"),
      flash_op(kBackward, "flash_attn::_flash_attn_varlen_backward", "flash_attn_2"),
      flash_op(kForward, "flash_attn_3::fwd", "flash_attn_3"),
      flash_op(kForward, "flash_attn_3::_flash_attn_forward", "flash_attn_3"),
      flash_op(kBackward, "flash_attn_3::bwd", "flash_attn_3"),
      flash_op(kBackward, "flash_attn_3::_flash_attn_backward", "flash_attn_3"),
      flash_op(kForward, "xformers_flash::flash_fwd", "xformers"),
      flash_op(kBackward, "xformers_flash::flash_bwd", "xformers"),
      flash_op(kForward, "xformers_flash3::flash_fwd", "xformers"),
      flash_op(kBackward, "xformers_flash3::flash_bwd", "xformers"),
      flash_op(kForward, "_vllm_fa2_C::varlen_fwd", "vllm"),
      flash_op(kForward, "_vllm_fa3_C::fwd", "vllm"),

      engine_op("vllm::unified_attention_with_output", "vllm"),
      engine_op("vllm::unified_attention", "vllm"),

      composite_op(OpRole::kNativeMha, "_native_multi_head_attention", "native_mha", Layout::kBSHD),
      composite_op(OpRole::kNativeMha, "_native_multi_head_attention.out", "native_mha", Layout::kBSHD),

      eager_op(OpRole::kProduct, "bmm"),
      eager_op(OpRole::kProduct, "bmm.out"),
      eager_op(OpRole::kProduct, "bmm.dtype"),
      eager_op(OpRole::kProduct, "bmm.dtype_out"),
      eager_op(OpRole::kProduct, "baddbmm"),
      eager_op(OpRole::kProduct, "baddbmm.out"),
      eager_op(OpRole::kProduct, "baddbmm_"),
      eager_op(OpRole::kProduct, "baddbmm.dtype"),
      eager_op(OpRole::kProduct, "baddbmm.dtype_out"),
      eager_op(OpRole::kSoftmax, "_softmax"),
      eager_op(OpRole::kSoftmax, "_softmax.out"),
      eager_op(OpRole::kSoftmax, "_safe_softmax"),
      eager_op(OpRole::kSoftmax, "_masked_softmax"),
      eager_op(OpRole::kSoftmax, "_masked_softmax.out"),
      eager_op(OpRole::kSoftmaxBackward, "_softmax_backward_data"),
      eager_op(OpRole::kSoftmaxBackward, "_softmax_backward_data.out"),
      eager_op(OpRole::kSoftmaxBackward, "_masked_softmax_backward"),
  };
  for (const char* name :
       {"mul.Tensor", "mul_.Tensor", "mul.Scalar", "mul_.Scalar", "mul.out", "div.Tensor", "div_.Tensor", "div.Scalar",
        "div_.Scalar", "tanh", "tanh_", "native_dropout", "bernoulli_.float"}) {
    table.push_back(eager_op(OpRole::kElementwise, name, Kind::kArithmetic));
  }
  for (const char* name : {"add.Tensor", "add_.Tensor", "add.Scalar", "sub.Tensor", "sub_.Tensor"}) {
    table.push_back(eager_op(OpRole::kElementwise, name, Kind::kAdd));
  }
  for (const char* name : {"masked_fill.Scalar", "masked_fill_.Scalar", "masked_fill.Tensor", "masked_fill_.Tensor"}) {
    table.push_back(eager_op(OpRole::kElementwise, name, Kind::kMaskedFill));
  }
  table.push_back(eager_op(OpRole::kElementwise, "where.self", Kind::kWhere));
  // A cast is seen as the copy_ under it, since _to_copy has a BackendSelect kernel of its own. Other copy_ spread
  // a linear layer's bias or write a cache: none of attention's business.
  OpEntry cast = eager_op(OpRole::kElementwise, "copy_", Kind::kCopy);
  cast.only_casts = true;
  table.push_back(std::move(cast));
  for (const char* name : {"clone", "index_select", "cat", "gather", "repeat", "tril", "triu"}) {
    table.push_back(eager_op(OpRole::kElementwise, name, Kind::kCopy));
  }
  return table;
}

/// What torch, flash-attn, xformers and vLLM call each argument.
std::vector<std::string_view> usual_names(Arg arg) {
  switch (arg) {
    case Arg::kQuery:
      return {"query", "q"};
    case Arg::kKey:
      return {"key", "k"};
    case Arg::kValue:
      return {"value", "v"};
    case Arg::kMask:
      return {"attn_mask", "attn_bias", "bias", "mask"};
    case Arg::kCausal:
      return {"is_causal", "causal"};
    case Arg::kMaskType:
      return {"custom_mask_type"};
    case Arg::kWindowLeft:
      return {"window_size_left", "window_left"};
    case Arg::kWindowRight:
      return {"window_size_right", "window_right"};
    case Arg::kWindow:
      return {"window_size"};
    case Arg::kCuSeqlensQ:
      return {"cum_seq_q", "cu_seqlens_q", "cu_seq_q", "seqstart_q"};
    case Arg::kCuSeqlensK:
      return {"cum_seq_k", "cu_seqlens_k", "cu_seq_k", "seqstart_k"};
    case Arg::kSequsedK:
      return {"seqused_k", "seqlen_k", "seqlens_k"};
    case Arg::kBlockTable:
      return {"block_table", "page_table", "block_tables"};
    case Arg::kDropout:
      return {"dropout_p", "p_dropout"};
    case Arg::kEnableGqa:
      return {"enable_gqa"};
    case Arg::kSavedOut:
      return {"out"};
    case Arg::kSavedLogsumexp:
      return {"logsumexp", "lse", "softmax_lse"};
    case Arg::kNumHeads:
      return {"num_head"};
    case Arg::kEmbedDim:
      return {"embed_dim"};
    case Arg::kLeft:
      return {"batch1", "self"};
    case Arg::kRight:
      return {"batch2", "mat2"};
    case Arg::kInput:
      return {"src", "self", "input", "tensors"};
    case Arg::kOther:
      return {"other", "mask"};
    case Arg::kGradOut:
      return {"grad_out", "grad_out_", "dout", "grad_output"};
    case Arg::kDim:
      return {"dim"};
    case Arg::kScale:
      return {"scale", "softmax_scale", "sm_scale"};
    case Arg::kSoftcap:
      return {"softcap"};
    case Arg::kAlibi:
      return {"alibi_slopes", "alibi"};
    case Arg::kCount:
      break;
  }
  return {};
}

}  // namespace

std::span<const OpEntry> known_ops() {
  static const auto* const table = new std::vector<OpEntry>(make_table());
  return *table;
}

std::vector<std::string_view> argument_names(const OpEntry& entry, Arg arg) {
  if (!entry.names_given) {
    return usual_names(arg);
  }
  const std::string& name = entry.names[static_cast<std::size_t>(arg)];
  if (!name.empty()) {
    return {name};
  }
  switch (arg) {
    case Arg::kSavedOut:
    case Arg::kSavedLogsumexp:  // a user's backward saves what every backward saves; it helps to find its forward
    case Arg::kScale:
    case Arg::kSoftcap:
    case Arg::kAlibi:  // only where weights are sampled
      return usual_names(arg);
    default:
      return {};
  }
}

OpEntry entry_of(const AttentionOpSpec& spec) {
  const std::size_t separator = spec.op.find("::");
  if (separator == 0 || separator == std::string::npos || separator + 2 == spec.op.size() ||
      spec.op.find("::", separator + 2) != std::string::npos) {
    throw Error("register_attention_op: '" + spec.op +
                "' is no op name; write it as 'namespace::name' or 'namespace::name.overload'");
  }
  if (spec.variant.empty()) {
    throw Error("register_attention_op: give '" + spec.op + "' a variant, the name that reports show");
  }
  OpEntry entry = fused(spec.backward ? OpRole::kFusedBackward : OpRole::kFusedForward, spec.op, spec.variant,
                        spec.layout, spec.causal_lower_right);
  entry.names_given = true;
  const auto give = [&entry](Arg arg, const std::optional<std::string>& name) {
    entry.names[static_cast<std::size_t>(arg)] = name.value_or("");
  };
  give(Arg::kQuery, spec.query);
  give(Arg::kKey, spec.key);
  give(Arg::kValue, spec.value);
  give(Arg::kMask, spec.mask);
  give(Arg::kCausal, spec.causal);
  give(Arg::kWindowLeft, spec.window_left);
  give(Arg::kWindowRight, spec.window_right);
  give(Arg::kCuSeqlensQ, spec.cu_seqlens_q);
  give(Arg::kCuSeqlensK, spec.cu_seqlens_k);
  give(Arg::kSequsedK, spec.seqused_k);
  give(Arg::kBlockTable, spec.block_table);
  if (spec.query.empty() || spec.key.empty() || spec.value.empty()) {
    throw Error("register_attention_op: '" + spec.op + "' needs the names of its query, key and value arguments");
  }
  return entry;
}

}  // namespace headscope::capture
