#pragma once

#include <array>

#include "capture/torch/pattern_probe.h"
#include "capture/torch/place.h"
#include "capture/torch/thread_state.h"
#include "capture/torch/weak_storage.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// Storages that autograd saves of a forward call.
using SavedStorages = std::array<WeakStorage, 2>;

/// A captured call on its way out: to the open composite op, which completes it, or else to the sink. `place` is that
/// of a forward. `probe`: what its attention weights are sampled from; nullptr: they are not.
void deliver(ThreadState& state, records::AttentionCall&& call, const SavedStorages& saved, const ForwardPlace& place,
             const ProbeSource* probe = nullptr) noexcept;

/// Takes over from `forward` what a backward's own arguments do not tell.
void link_to_forward(records::AttentionCall& call, const ForwardInfo& forward) noexcept;

/// Names the layer of a chain that the recogniser finished, and delivers it.
void deliver_chain(ThreadState& state, EagerRecogniser::Finished&& finished, std::uint32_t sessions) noexcept;

}  // namespace headscope::capture::torch
