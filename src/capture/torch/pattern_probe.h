#pragma once

#include <cstdint>
#include <optional>

#include "capture/torch/score_rows.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// Samples `call` into its pattern_sample, or says in not_sampled why not. Runs ATen on this thread as UnseenScope
/// does, waits for a device whose tensors are read, and spends the step's budget of scores. Where the source asks for
/// it, also measures what cheaper settings would do to it, into tolerance_sample.
void sample_patterns(records::AttentionCall& call, const ProbeSource& source) noexcept;

/// What the softmax of a layer is about to read, if it has the form of attention's scores.
std::optional<ProbeSource> sample_chain(const at::Tensor& scores, std::uint32_t label) noexcept;

}  // namespace headscope::capture::torch
