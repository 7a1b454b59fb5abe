#include "capture/trace/fused_op.h"

#include <charconv>
#include <string_view>

#include "capture/fused_call.h"
#include "capture/operand.h"

namespace headscope::capture::trace {
namespace {

/// "[384, 0]" or "384".
void read_window(FusedArguments& fused, const OpArguments& arguments) {
  fused.window.left = arguments.integer(Arg::kWindowLeft).value_or(-1);
  fused.window.right = arguments.integer(Arg::kWindowRight).value_or(-1);
  if (const auto width = arguments.integer(Arg::kWindow)) {
    fused.window.left = *width - 1;  // the efficient kernel counts the query's own key
    return;
  }
  const std::string_view pair = arguments.text(Arg::kWindow);
  const std::size_t comma = pair.find(',');
  if (pair.starts_with('[') && comma != std::string_view::npos) {
    const char* const end = pair.data() + pair.size();
    std::from_chars(pair.data() + 1, end, fused.window.left);
    std::from_chars(pair.data() + pair.find_first_not_of(", ", comma), end, fused.window.right);
  }
}

void read_sequences(FusedArguments& fused, const OpArguments& arguments) {
  const std::optional<TensorView> cumulative = arguments.tensor(Arg::kCuSeqlensQ);
  const std::optional<TensorView> used = arguments.tensor(Arg::kSequsedK);
  if (cumulative && cumulative->elements() > 0) {
    fused.varlen = true;
    fused.sequences = cumulative->elements() - 1;
  } else if (used) {
    fused.varlen = true;
    fused.sequences = used->elements();
  }
  if (const auto table = arguments.tensor(Arg::kBlockTable); table && table->dims == 2 && fused.k.dims == 4) {
    fused.paged = !__builtin_mul_overflow(table->size(1), fused.k.size(1), &fused.paged_width);
  }
}

/// [batch, sequence, embedding] as [batch, sequence, heads, dim].
bool split_heads(TensorView& view, std::int64_t heads) noexcept {
  if (view.dims != 3 || heads <= 0 || view.sizes[2] % heads != 0) {
    return false;
  }
  view.dims = 4;
  view.sizes[3] = view.sizes[2] / heads;
  view.sizes[2] = heads;
  view.strides[3] = view.strides[2];
  view.strides[2] = view.sizes[3] * view.strides[3];
  return true;
}

}  // namespace

records::AttentionCall call_without_shapes(const TraceOp& op, records::Device device) {
  records::AttentionCall call;
  call.op = &op.entry->info;
  call.direction = op.entry->role == OpRole::kFusedBackward ? Direction::kBackward : Direction::kForward;
  call.device = device;
  call.lengths_unknown = true;
  call.mask = records::MaskState::kUnseen;
  return call;
}

std::optional<records::AttentionCall> read_fused_op(const TraceOp& op, const OpArguments& arguments) {
  const auto q = arguments.tensor(Arg::kQuery);
  const auto k = arguments.tensor(Arg::kKey);
  const auto v = arguments.tensor(Arg::kValue);
  if (!q || !k || !v) {
    return std::nullopt;
  }
  FusedArguments fused;
  fused.q = *q;
  fused.k = *k;
  fused.v = *v;
  // Not recorded; taken as three, which share no byte.
  fused.q.storage = 1;
  fused.k.storage = 2;
  fused.v.storage = 3;
  if (op.entry->role == OpRole::kNativeMha) {
    const std::int64_t heads = arguments.integer(Arg::kNumHeads).value_or(0);
    if (!split_heads(fused.q, heads) || !split_heads(fused.k, heads) || !split_heads(fused.v, heads)) {
      return std::nullopt;
    }
  }
  fused.causal = arguments.boolean(Arg::kCausal);
  fused.mask_type = arguments.integer(Arg::kMaskType).value_or(0);
  fused.has_dropout = arguments.number(Arg::kDropout) > 0;
  read_window(fused, arguments);
  read_sequences(fused, arguments);
  std::optional<records::AttentionCall> call = make_fused_call(*op.entry, fused);
  if (!call) {
    return std::nullopt;
  }
  if (const auto mask = arguments.tensor(Arg::kMask)) {
    call->mask = records::MaskState::kOpaque;
    call->mask_bytes = operand_of(*mask).bytes();
  } else if (!op.entry->hidden_cache && !arguments.has_values()) {
    call->mask = records::MaskState::kUnseen;
  }
  const records::Geometry& geometry = call->geometry;
  if (geometry.head_dim > 0) {
    call->out = {call->q.elements / static_cast<std::uint64_t>(geometry.head_dim) *
                     static_cast<std::uint64_t>(geometry.head_dim_v),
                 call->q.element_size};
  }
  if (const auto out = arguments.tensor(Arg::kSavedOut); out && out->element_size > 0) {
    call->out = operand_of(*out);
  }
  call->score_bytes = op.entry->info.kernel == records::Kernel::kFused ? 0 : -1;
  return call;
}

}  // namespace headscope::capture::trace
