#include "capture/torch/frame.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "capture/fused_call.h"
#include "capture/operand.h"
#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {
namespace {

/// A fast path whose inner attention was not seen: its time holds the projections too.
const records::OpInfo kUnsplitNativeOp{"aten::_native_multi_head_attention", "native_mha", records::Kernel::kEager,
                                       false};

/// A chain writes and reads the scores, then writes and reads the probabilities.
constexpr std::uint64_t kScorePasses = 4;

FusedArguments operands_of(const Frame& frame) {
  FusedArguments arguments;
  arguments.q = frame.arguments.q;
  arguments.k = frame.arguments.k;
  arguments.v = frame.arguments.v;
  arguments.causal = frame.arguments.causal;
  arguments.has_dropout = frame.arguments.has_dropout;
  return arguments;
}

/// [batch, sequence, embedding] as [batch, sequence, heads, dim].
TensorView split_heads(const TensorView& tensor, std::int64_t heads) noexcept {
  TensorView view = tensor;
  view.dims = 4;
  view.sizes = {tensor.sizes[0], tensor.sizes[1], heads, tensor.sizes[2] / heads};
  view.strides = {tensor.strides[0], tensor.strides[1], view.sizes[3] * tensor.strides[2], tensor.strides[2]};
  return view;
}

std::optional<records::Geometry> frame_geometry(const Frame& frame) noexcept {
  return geometry_of(operands_of(frame), frame.entry->layout);
}

/// What the recogniser saw of the chain under the composite op.
void take_chain(records::AttentionCall& call, const Frame& frame, const records::Geometry& geometry) noexcept {
  const records::AttentionCall* chain = frame.inner ? &*frame.inner : nullptr;
  if (chain != nullptr && chain->op->kernel == records::Kernel::kEager) {
    call.time_ns = chain->time_ns;
    call.device_ops = chain->device_ops;
    call.materialized = chain->materialized;
    call.score_bytes = chain->score_bytes;
    call.scores_only = chain->scores_only;
    call.layer.label = chain->layer.label;
    return;
  }
  const auto scores = static_cast<std::uint64_t>(geometry.batch * geometry.heads * geometry.q_len * geometry.kv_len);
  call.time_ns = call.end_ns - call.start_ns;
  call.materialized.traffic_bytes = kScorePasses * scores * frame.arguments.q.element_size;
}

void set_mask(records::AttentionCall& call, const Frame& frame) noexcept {
  if (!frame.arguments.mask) {
    return;
  }
  call.mask = frame.mask.state;
  call.mask_count = frame.mask.count;
  call.mask_bytes = frame.mask.stored_bytes;
}

/// Scaled copies of Q and K may have the size of an expanded or upcast one: no more is taken than those need.
records::FoundAllocations found_allocations(const records::AttentionCall& call,
                                            const MemoryMeter::Reading& reading) noexcept {
  constexpr std::int64_t kFloat = 4;
  const records::Geometry& g = call.geometry;
  const std::int64_t keys_of_all_heads = g.batch * g.heads * g.kv_len * (g.head_dim + g.head_dim_v);
  const auto operands = static_cast<std::int64_t>(call.q.elements + call.k.elements + call.v.elements);
  return {.kv_copies = std::min(reading.of(AllocationKind::kKeyValueCopy),
                                keys_of_all_heads * static_cast<std::int64_t>(call.k.element_size)),
          .masks = reading.of(AllocationKind::kMask),
          .upcasts = std::min(reading.of(AllocationKind::kUpcast), operands * kFloat)};
}

void set_memory(records::AttentionCall& call, const MemoryMeter::Reading& reading) noexcept {
  if (reading.allocated_bytes >= 0) {
    call.allocated_bytes = reading.allocated_bytes;
    call.peak_bytes = reading.peak_bytes;
    // Allocations show score matrices that no hooked op made; the chain's own ops are the least.
    call.score_bytes = std::max(call.score_bytes, reading.of(AllocationKind::kScores));
    call.found = found_allocations(call, reading);
  }
}

/// The math path of scaled_dot_product_attention.
std::optional<records::AttentionCall> math_call(const Frame& frame, const Redispatch& own) {
  std::optional<records::AttentionCall> call = make_fused_call(*frame.entry, operands_of(frame));
  if (!call) {
    return std::nullopt;
  }
  call->start_ns = own.start_ns();
  call->end_ns = own.end_ns();
  call->fallback = math_reason(frame.arguments);
  const records::Geometry& geometry = call->geometry;
  call->out = {static_cast<std::uint64_t>(geometry.batch * geometry.heads * geometry.q_len * geometry.head_dim_v),
               frame.arguments.q.element_size};
  take_chain(*call, frame, geometry);
  call->glue_ns = call->end_ns - call->start_ns - call->time_ns;
  return call;
}

/// The attention between the projections of native multi-head attention.
std::optional<records::AttentionCall> native_call(const Frame& frame, const Redispatch& own) {
  std::optional<records::AttentionCall> call = make_fused_call(*frame.entry, operands_of(frame));
  if (!call) {
    return std::nullopt;
  }
  call->start_ns = own.start_ns();
  call->end_ns = own.end_ns();
  call->out = call->q;
  // Self-attention gives one input three times, but the attention reads three projections of it.
  call->kv_overlap_bytes = 0;
  call->q_overlap_bytes = 0;
  take_chain(*call, frame, call->geometry);
  if (!frame.inner) {
    call->op = &kUnsplitNativeOp;
  } else {
    call->other_ns = call->end_ns - call->start_ns - call->time_ns;
  }
  return call;
}

}  // namespace

void Frame::accept(records::AttentionCall&& call, const SavedStorages& storages) {
  inner = std::move(call);
  saved = storages;
}

bool open_frame(Frame& frame, const OpEntry& entry, const records::Watch& watch, const Arguments& arguments,
                ThreadState& state) {
  TensorView& q = frame.arguments.q;
  TensorView& k = frame.arguments.k;
  TensorView& v = frame.arguments.v;
  if (!arguments.read(Arg::kQuery, q) || !arguments.read(Arg::kKey, k) || !arguments.read(Arg::kValue, v) ||
      q.dims < 2 || k.dims < 2 || v.dims < 2) {
    return false;
  }
  frame.entry = &entry;
  frame.watch = watch;
  frame.place = place_above_autograd();
  if (watch.sampled && state.frame == nullptr) {
    frame.probe.emplace().tolerance = watch.tolerance;
    if (entry.role == OpRole::kComposite) {
      frame.probe->operands.emplace(entry, arguments);
    }
  }
  if (entry.role == OpRole::kNativeMha) {
    frame.native_heads = arguments.integer(Arg::kNumHeads).value_or(0);
    if (frame.native_heads <= 0 || q.dims != 3 || k.dims != 3 || v.dims != 3 || q.size(2) % frame.native_heads != 0) {
      return false;
    }
    q = split_heads(q, frame.native_heads);
    k = split_heads(k, frame.native_heads);
    v = split_heads(v, frame.native_heads);
  } else {
    frame.arguments.causal = arguments.boolean(Arg::kCausal);
    frame.arguments.has_dropout = arguments.number(Arg::kDropout) > 0.0;
    frame.arguments.fused_enabled = at::globalContext().userEnabledFlashSDP();
  }
  if (const at::Tensor* mask = arguments.tensor(Arg::kMask); mask != nullptr && is_readable(*mask)) {
    frame.arguments.mask = view_of(*mask);
    frame.arguments.mask_requires_grad = mask->requires_grad();
    const std::optional<records::Geometry> geometry = frame_geometry(frame);
    if (geometry && frame.entry->role == OpRole::kComposite) {
      frame.mask = state.masks.count(*mask, false, *geometry, *sink());
    } else {
      frame.mask.stored_bytes = operand_of(*frame.arguments.mask).bytes();
    }
  }
  return true;
}

ExpectedAllocations expected_allocations(const Frame& frame) noexcept {
  using Kind = AllocationKind;
  constexpr std::int64_t kFloat = 4;
  const auto& [q, k, v] = std::tie(frame.arguments.q, frame.arguments.k, frame.arguments.v);
  const int sequence = frame.entry->layout == Layout::kBSHD ? -3 : -2;
  const std::int64_t q_len = q.size(sequence);
  const std::int64_t kv_len = k.size(sequence);
  const std::int64_t head_dim = q.size(-1);
  const std::int64_t head_dim_v = v.size(-1);
  const auto size = static_cast<std::int64_t>(q.element_size);
  ExpectedAllocations expected;
  expected.device = q.device.type;
  if (head_dim == 0) {
    return expected;
  }
  const std::int64_t rows = q.elements() / head_dim;  // batch · heads · q_len
  if (head_dim != kv_len && head_dim != q_len && head_dim_v != kv_len && head_dim_v != q_len) {
    expected.expect(Kind::kScores, rows * kv_len * size);
    expected.expect(Kind::kScores, rows * kv_len * kFloat);
  }
  if (q_len > 0 && k.elements() != rows / q_len * kv_len * head_dim) {
    // Grouped queries: K and V are repeated for each query head.
    expected.expect(Kind::kKeyValueCopy, rows / q_len * kv_len * head_dim * size);
    expected.expect(Kind::kKeyValueCopy, rows / q_len * kv_len * head_dim_v * size);
  }
  const std::int64_t mask = frame.arguments.mask ? frame.arguments.mask->elements() : q_len * kv_len;
  if (frame.arguments.mask || frame.arguments.causal) {
    // A bool mask, given or built for causality, becomes one of numbers.
    expected.expect(Kind::kMask, mask * size);
    expected.expect(Kind::kMask, mask * kFloat);
    expected.expect(Kind::kMask, mask);
  }
  if (size < kFloat) {
    for (const TensorView* operand : {&q, &k, &v}) {
      expected.expect(Kind::kUpcast, operand->elements() * kFloat);
    }
    expected.expect(Kind::kUpcast, rows / std::max<std::int64_t>(q_len, 1) * kv_len * head_dim * kFloat);
  }
  return expected;
}

void close_frame(Frame& frame, const Redispatch& own, ThreadState& state) {
  const bool native = frame.entry->role == OpRole::kNativeMha;
  if (!frame.inner && c10::impl::dispatch_mode_enabled()) {
    return;  // a mode gave the result of an earlier run, as selective checkpointing does; no attention ran
  }
  if (!native && frame.inner && frame.inner->op->kernel == records::Kernel::kFused) {
    // The composite op may have padded or sliced around the fused one; its span is the user's call.
    frame.inner->start_ns = own.start_ns();
    frame.inner->end_ns = own.end_ns();
    frame.inner->device_ops = own.device_ops();
  } else {
    frame.inner = native ? native_call(frame, own) : math_call(frame, own);
  }
  if (!frame.inner) {
    sink()->count_hook_error();
    return;
  }
  records::AttentionCall& call = *frame.inner;
  call.sessions = frame.watch.sessions;
  if (call.device_ops.first == 0) {
    call.device_ops = own.device_ops();
  }
  call.device_ops.outer = own.device_ops().outer;
  set_mask(call, frame);
  set_memory(call, own.memory());
  // Without gradients autograd keeps nothing of a composite op that a backward could be known by.
  deliver(state, std::move(call), c10::GradMode::is_enabled() ? frame.saved : SavedStorages{}, frame.place,
          frame.probe ? &*frame.probe : nullptr);
}

}  // namespace headscope::capture::torch
