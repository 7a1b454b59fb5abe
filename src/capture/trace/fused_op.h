#pragma once

#include <optional>

#include "capture/trace/op_arguments.h"
#include "records/attention_call.h"

namespace headscope::capture::trace {

/// The call that the recorded inputs of a fused op, of the composite or of native multi-head attention tell.
/// std::nullopt where the shapes are not recorded, or are no attention. Not filled: times, layer, ids.
///
/// A mask is kOpaque: a trace holds no values of tensors. Without recorded values the call may be causal, and its
/// mask is kUnseen. Lengths of sequences are unknown for the same reason.
std::optional<records::AttentionCall> read_fused_op(const TraceOp& op, const OpArguments& arguments);

/// What a call without shapes still tells: op and direction.
records::AttentionCall call_without_shapes(const TraceOp& op, records::Device device);

}  // namespace headscope::capture::trace
