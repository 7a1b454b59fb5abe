#include "capture/trace/trace_ops.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace headscope::capture::trace {
namespace {

struct Schema {
  std::string_view op;
  /// Where an op has several: the one with as many arguments as the trace shows is taken, else the first.
  std::string_view arguments;
};

// Of torch 2.1 to 2.14, flash-attn 2 and 3, vLLM. Arguments that later versions append need no line of their own.
constexpr Schema kSchemas[] = {
    {"aten::scaled_dot_product_attention", "query key value attn_mask dropout_p is_causal scale enable_gqa"},
    {"aten::_scaled_dot_product_flash_attention", "query key value dropout_p is_causal return_debug_mask scale"},
    {"aten::_scaled_dot_product_flash_attention",
     "query key value q_descale k_descale v_descale dropout_p is_causal return_debug_mask scale"},
    {"aten::_scaled_dot_product_flash_attention_backward",
     "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal philox_seed "
     "philox_offset scale"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "query key value dropout_p is_causal attn_mask scale"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     "grad_out query key value out logsumexp dropout_p is_causal attn_mask scale"},
    {"aten::_scaled_dot_product_efficient_attention",
     "query key value attn_bias compute_log_sumexp dropout_p is_causal scale"},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     "grad_out_ query key value attn_bias out logsumexp philox_seed philox_offset dropout_p grad_input_mask is_causal "
     "scale"},
    {"aten::_scaled_dot_product_cudnn_attention",
     "query key value attn_bias compute_log_sumexp dropout_p is_causal return_debug_mask scale"},
    {"aten::_scaled_dot_product_cudnn_attention",  // torch 2.4
     "query key value dropout_p is_causal return_debug_mask scale"},
    {"aten::_scaled_dot_product_cudnn_attention_backward",
     "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q cum_seq_k max_q max_k "
     "dropout_p is_causal scale"},
    {"aten::_scaled_dot_product_fused_attention_overrideable",
     "query key value attn_bias dropout_p is_causal return_debug_mask scale"},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     "grad_out query key value attn_bias grad_input_mask out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p "
     "is_causal philox_seed philox_offset scale"},
    {"aten::_triton_scaled_dot_attention", "q k v dropout_p"},
    {"aten::_flash_attention_forward",
     "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal return_debug_mask scale window_size_left "
     "window_size_right seqused_k alibi_slopes"},
    {"aten::_flash_attention_forward",
     "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal return_debug_mask scale window_size_left "
     "window_size_right seqused_k alibi_slopes block_table num_splits"},
    {"aten::_flash_attention_forward",
     "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal return_debug_mask q_descale k_descale "
     "v_descale scale window_size_left window_size_right seqused_k alibi_slopes block_table num_splits"},
    {"aten::_flash_attention_forward_no_dropout_inplace",
     "out query key value cum_seq_q cum_seq_k max_q max_k is_causal return_debug_mask scale window_size_left "
     "window_size_right seqused_k alibi_slopes block_table num_splits"},
    {"aten::_flash_attention_backward",
     "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal rng_state unused "
     "scale "
     "window_size_left window_size_right"},
    {"aten::_efficient_attention_forward",
     "query key value bias cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p custom_mask_type "
     "compute_log_sumexp scale seqlen_k window_size"},
    {"aten::_efficient_attention_forward",  // torch 2.1 and 2.2
     "query key value bias cu_seqlens_q cu_seqlens_k max_seqlen_q dropout_p custom_mask_type compute_log_sumexp scale "
     "causal_diagonal seqlen_k"},
    {"aten::_efficient_attention_backward",
     "grad_out_ query key value bias out cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k logsumexp dropout_p "
     "philox_seed philox_offset custom_mask_type bias_requires_grad scale num_splits_key window_size"},
    {"aten::_cudnn_attention_forward",
     "query key value attn_bias cum_seq_q cum_seq_k max_q max_k compute_log_sumexp dropout_p is_causal "
     "return_debug_mask scale seqused_k block_table"},
    {"aten::_cudnn_attention_backward",
     "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q cum_seq_k max_q max_k "
     "dropout_p is_causal scale"},
    {"torch_attn::_varlen_attn",
     "query key value cu_seq_q cu_seq_k max_q max_k is_causal scale window_size enable_gqa seqused_k block_table "
     "num_splits"},
    {"torch_attn::_varlen_attn_out",
     "out query key value cu_seq_q cu_seq_k max_q max_k is_causal scale window_size enable_gqa seqused_k block_table "
     "num_splits"},
    {"torch_attn::_varlen_attn_backward",
     "grad_out query key value out lse cu_seq_q cu_seq_k max_q max_k is_causal rng_state scale window_size"},
    {"flash_attn::_flash_attn_forward",
     "q k v dropout_p softmax_scale causal window_size_left window_size_right softcap alibi_slopes return_softmax"},
    {"flash_attn::_flash_attn_varlen_forward",
     "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p softmax_scale causal window_size_left "
     "window_size_right softcap alibi_slopes return_softmax block_table leftpad_k seqused_k zero_tensors num_splits"},
    {"flash_attn::_flash_attn_backward",
     "dout q k v out softmax_lse dq dk dv dropout_p softmax_scale causal window_size_left window_size_right softcap "
     "alibi_slopes deterministic rng_state"},
    {"flash_attn::_flash_attn_varlen_backward",
     "dout q k v out softmax_lse dq dk dv cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p softmax_scale "
     "causal window_size_left window_size_right softcap alibi_slopes deterministic rng_state zero_tensors"},
    {"flash_attn_3::fwd",
     "q k v k_new v_new q_v out cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k max_seqlen_q "
     "max_seqlen_k page_table kv_batch_idx leftpad_k rotary_cos rotary_sin seqlens_rotary q_descale k_descale "
     "v_descale "
     "softmax_scale is_causal window_size_left window_size_right attention_chunk softcap is_rotary_interleaved "
     "scheduler_metadata num_splits pack_gqa sm_margin"},
    {"flash_attn_3::_flash_attn_forward",
     "q k v k_new v_new qv out cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k max_seqlen_q "
     "max_seqlen_k page_table kv_batch_idx leftpad_k rotary_cos rotary_sin seqlens_rotary q_descale k_descale "
     "v_descale "
     "softmax_scale causal window_size_left window_size_right attention_chunk softcap rotary_interleaved "
     "scheduler_metadata num_splits pack_gqa sm_margin"},
    {"flash_attn_3::bwd",
     "dout q k v out softmax_lse dq dk dv cu_seqlens_q cu_seqlens_k seqused_q seqused_k max_seqlen_q max_seqlen_k "
     "softmax_scale is_causal window_size_left window_size_right softcap deterministic sm_margin"},
    {"flash_attn_3::_flash_attn_backward",
     "dout q k v out softmax_lse cu_seqlens_q cu_seqlens_k seqused_q seqused_k max_seqlen_q max_seqlen_k softmax_scale "
     "causal window_size_left window_size_right softcap deterministic sm_margin"},
    {"_vllm_fa2_C::varlen_fwd",
     "q k v out cu_seqlens_q cu_seqlens_k seqused_k leftpad_k block_table alibi_slopes max_seqlen_q max_seqlen_k "
     "p_dropout softmax_scale zero_tensors is_causal window_size_left window_size_right softcap return_softmax "
     "num_splits gen"},
    {"_vllm_fa3_C::fwd",
     "q k v k_new v_new q_v out cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k max_seqlen_q "
     "max_seqlen_k page_table kv_batch_idx leftpad_k rotary_cos rotary_sin seqlens_rotary q_descale k_descale "
     "v_descale "
     "softmax_scale is_causal window_size_left window_size_right softcap is_rotary_interleaved scheduler_metadata "
     "num_splits pack_gqa sm_margin s_aux"},
    {"vllm::unified_attention_with_output", "query key value out layer_name"},
    {"vllm::unified_attention", "query key value layer_name"},
    {"aten::_native_multi_head_attention",
     "query key value embed_dim num_head qkv_weight qkv_bias proj_weight proj_bias mask need_weights "
     "average_attn_weights mask_type"},
    {"aten::bmm", "self mat2"},
    {"aten::baddbmm", "addend batch1 batch2 beta alpha"},
    {"aten::baddbmm_", "addend batch1 batch2 beta alpha"},
    {"aten::_softmax", "self dim half_to_float"},
    {"aten::_safe_softmax", "self dim dtype"},
    {"aten::_masked_softmax", "self mask dim mask_type"},
    {"aten::_softmax_backward_data", "grad_output output dim input_dtype"},
    {"aten::_masked_softmax_backward", "grad_output output mask dim"},
    // autograd functions of Megatron and Apex, over the last axis of the scores
    {"ScaledSoftmax", "self"},
    {"ScaledMaskedSoftmax", "self"},
    {"GenericScaledMaskedSoftmax", "self"},
    {"ScaledUpperTriangMaskedSoftmax", "self"},
    {"ScaledAlignedCausalMaskedSoftmax", "self"},
    {"ScaledSoftmaxBackward", "grad_output"},
    {"ScaledMaskedSoftmaxBackward", "grad_output"},
    {"GenericScaledMaskedSoftmaxBackward", "grad_output"},
    {"ScaledUpperTriangMaskedSoftmaxBackward", "grad_output"},
    {"ScaledAlignedCausalMaskedSoftmaxBackward", "grad_output"},
};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// The softmaxes above that are no ops of the dispatcher.
const OpEntry* function_entry(std::string_view name) {
  const auto entry_with = [](OpRole role) {
    auto* const entry = new OpEntry();
    entry->info = {"softmax", "eager", records::Kernel::kEager, true};
    entry->role = role;
    return entry;
  };
  static const OpEntry* const forward = entry_with(OpRole::kSoftmax);
  static const OpEntry* const backward = entry_with(OpRole::kSoftmaxBackward);
  return name.ends_with("Backward") ? backward : forward;
}

std::unordered_map<std::string_view, TraceOp> make_ops() {
  std::unordered_map<std::string_view, const OpEntry*> entries;
  for (const OpEntry& entry : known_ops()) {
    entries.try_emplace(entry.info.name, &entry);
  }
  std::unordered_map<std::string_view, TraceOp> ops;
  for (const auto& [name, arguments] : kSchemas) {
    TraceOp& op = ops[name];
    const auto known = entries.find(name);
    op.entry = known != entries.end() ? known->second : function_entry(name);
    op.schemas.push_back(words_of(arguments));
    op.causal_softmax = name.starts_with("ScaledUpperTriang") || name.starts_with("ScaledAlignedCausal");
  }
  for (const auto& [name, entry] : entries) {
    if (entry->role != OpRole::kElementwise && name.find('.') == std::string_view::npos) {
      ops.try_emplace(name, TraceOp{entry, {}, false});  // known, its arguments are not
    }
  }
  return ops;
}

}  // namespace

std::optional<std::size_t> TraceOp::position(Arg arg, std::size_t count) const {
  const std::vector<std::string_view>* schema = schemas.empty() ? nullptr : &schemas.front();
  for (const std::vector<std::string_view>& candidate : schemas) {
    if (candidate.size() == count) {
      schema = &candidate;
      break;
    }
  }
  if (schema == nullptr) {
    return std::nullopt;
  }
  for (const std::string_view name : argument_names(*entry, arg)) {
    const auto found = std::find(schema->begin(), schema->end(), name);
    const auto position = static_cast<std::size_t>(found - schema->begin());
    if (found != schema->end() && position < count) {
      return position;
    }
  }
  return std::nullopt;
}

const TraceOp* trace_op(std::string_view name) {
  static const auto* const ops = new std::unordered_map<std::string_view, TraceOp>(make_ops());
  const auto found = ops->find(name);
  return found != ops->end() ? &found->second : nullptr;
}

}  // namespace headscope::capture::trace
