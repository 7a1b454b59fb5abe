#include "capture/torch/delivery.h"

#include <c10/core/InferenceMode.h>

#include <atomic>
#include <utility>
#include <vector>

#include "base/split.h"
#include "capture/layers.h"
#include "capture/open_forwards.h"
#include "capture/torch/frame.h"

namespace headscope::capture::torch {
namespace {

const records::OpInfo kEagerOp{"bmm+softmax+bmm", "eager", records::Kernel::kEager, true};

std::uint64_t next_call_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// What the backward's saved storages lead to: of a recompute, the forward that it repeats.
std::uint64_t model_call_id(const records::AttentionCall& call) noexcept {
  return call.direction == Direction::kRecompute && call.forward_call_id != 0 ? call.forward_call_id : call.call_id;
}

/// 3-D products merge batch and heads into one axis; a named layer tells how many heads it has.
void split_merged_heads(records::AttentionCall& call) {
  const LayerInfo* layer = layer_info(call.layer.label);
  records::Geometry& geometry = call.geometry;
  if (layer == nullptr || !layer->heads || geometry.batch != 1 || *layer->heads <= 0 ||
      geometry.heads <= *layer->heads || geometry.heads % *layer->heads != 0) {
    return;
  }
  const std::int64_t batch = geometry.heads / *layer->heads;
  if (geometry.kv_heads % batch != 0) {
    return;
  }
  geometry.batch = batch;
  geometry.heads /= batch;
  geometry.kv_heads /= batch;
  if (call.mask_count && !call.mask_count->pairs_per_head.empty()) {
    records::MaskCount folded = *call.mask_count;
    const auto heads = static_cast<std::size_t>(geometry.heads);
    std::vector<std::uint64_t> pairs(heads, 0);
    for (std::size_t i = 0; i < folded.pairs_per_head.size(); ++i) {
      pairs[i % heads] += folded.pairs_per_head[i];
    }
    folded.pairs_per_head = std::move(pairs);
    call.mask_count = std::make_shared<const records::MaskCount>(std::move(folded));
  }
}

/// Query heads that were packed into the query axis, one token of each, so that shared keys need no copy
/// (transformers decodes grouped queries so where there is a mask). A named layer tells the heads.
void unpack_grouped_queries(records::AttentionCall& call) {
  const LayerInfo* layer = layer_info(call.layer.label);
  records::Geometry& geometry = call.geometry;
  if (layer == nullptr || !layer->heads || !layer->model_kv_heads || *layer->model_kv_heads <= 0 ||
      call.causal != records::Causal::kNone || geometry.heads != *layer->model_kv_heads ||
      geometry.kv_heads != geometry.heads || *layer->heads <= geometry.heads ||
      *layer->heads != geometry.heads * geometry.q_len) {
    return;
  }
  const std::int64_t groups = geometry.q_len;
  geometry.heads = *layer->heads;
  geometry.q_len = 1;
  if (call.mask_count && !call.mask_count->pairs_per_head.empty()) {
    records::MaskCount spread = *call.mask_count;
    std::vector<std::uint64_t> pairs;
    for (const std::uint64_t packed : call.mask_count->pairs_per_head) {
      base::split(packed, static_cast<std::size_t>(groups), {},
                  [&pairs](std::size_t, base::Wide share) { pairs.push_back(static_cast<std::uint64_t>(share)); });
    }
    spread.pairs_per_head = std::move(pairs);
    call.mask_count = std::make_shared<const records::MaskCount>(std::move(spread));
  }
}

/// Gives the call its id, its layer and, of a forward, what it is to the backward pass that it runs in.
void complete(records::AttentionCall& call, const ForwardPlace& place) {
  call.call_id = next_call_id();
  const bool backward = call.direction == Direction::kBackward;
  if (!backward) {
    call.inside_backward = inside_backward();
    call.layer.label = call.scores_only ? call.layer.label : current_layer();
    call.layer.thread = sink()->this_thread();
  }
  if (call.op->kernel == records::Kernel::kEager) {
    split_merged_heads(call);
  }
  unpack_grouped_queries(call);
  if (backward) {
    return;
  }
  const auto repeated = call.inside_backward ? repeated_forward(open_forwards(), call) : std::nullopt;
  if (repeated) {
    call.direction = Direction::kRecompute;
    call.forward_call_id = repeated->call_id;
    call.layer = repeated->layer;
  } else if (call.layer.label == 0) {
    call.layer = sink()->next_unnamed_layer();
  }
  if (place.repeatable()) {
    open_forwards().open(model_call_id(call), call, place);
  }
}

/// What is known of the layer.
void describe_layer(records::AttentionCall& call) noexcept {
  if (const LayerInfo* layer = layer_info(call.layer.label)) {
    call.cross = layer->cross;
  }
}

ForwardInfo info_of(const records::AttentionCall& call) {
  return {model_call_id(call), call.op,   call.layer,      call.geometry,  call.causal,
          call.window,         call.mask, call.mask_count, call.mask_bytes};
}

}  // namespace

void deliver(ThreadState& state, records::AttentionCall&& call, const SavedStorages& saved, const ForwardPlace& place,
             const ProbeSource* probe) noexcept {
  try {
    if (call.device_ops.outer != 0) {
      call.device_ops.thread = system_thread(state);
    }
    if (state.frame != nullptr) {
      state.frame->accept(std::move(call), saved);
      return;
    }
    complete(call, place);
    describe_layer(call);
    // Not asked by grad mode: the ops inside an autograd.Function (flash-attn, varlen) run without it.
    if (call.direction != Direction::kBackward && !c10::InferenceMode::is_enabled()) {
      const ForwardInfo info = info_of(call);
      for (const WeakStorage& storage : saved) {
        forward_links().put(storage, info);
      }
    }
    if (probe != nullptr && call.direction == Direction::kForward && !call.inside_backward && !call.scores_only) {
      sample_patterns(call, *probe);
    }
    sink()->submit(std::move(call));
  } catch (...) {
    sink()->count_hook_error();
  }
}

void link_to_forward(records::AttentionCall& call, const ForwardInfo& forward) noexcept {
  call.forward_call_id = forward.call_id;
  call.layer = forward.layer;
  call.causal = forward.causal;
  call.window = forward.window;
  call.mask = forward.mask;
  call.mask_count = forward.mask_count;
  call.mask_bytes = forward.mask_bytes;
}

void deliver_chain(ThreadState& state, EagerRecogniser::Finished&& finished, std::uint32_t sessions) noexcept {
  records::AttentionCall& call = finished.call;
  call.sessions = sessions;
  call.op = &kEagerOp;
  if (call.direction == Direction::kBackward) {
    if (state.backward_of) {
      call.op = state.backward_of->op;
      link_to_forward(call, *state.backward_of);
      state.backward_of.reset();
    } else {
      call.layer.order = records::LayerRef::kUnknownOrder;
    }
  }
  ForwardPlace place;
  if (call.direction != Direction::kBackward && state.frame == nullptr) {
    place = place_below_autograd();
    place.first_node = finished.first_node;
  }
  const std::optional<ProbeSource> probe = state.chain_probes.take(finished.probabilities);
  if (probe) {
    call.start_ns += probe->sampling_ns;  // the softmax waited for it, the chain did not
  }
  deliver(state, std::move(call), {state.probabilities.find(finished.probabilities), WeakStorage{}}, place,
          probe ? &*probe : nullptr);
}

}  // namespace headscope::capture::torch
