#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "records/attention_call.h"
#include "records/host_span.h"
#include "records/trace_recording.h"

/// Attention calls out of a recorded trace. Pure: no torch, no file.
namespace headscope::capture::trace {

struct TraceCall {
  records::AttentionCall call;
  std::uint32_t thread = 0;  ///< index into TraceRecording::threads
  /// Ops whose launches are the call's own: of a fused call the outermost attention op around it; of an eager chain
  /// its products and its softmax, or the whole chain where those were not told apart.
  std::vector<records::HostSpan> ops;
  /// First to last of `ops`; launches between them are the chain's glue.
  records::HostSpan whole;
};

struct TraceCalls {
  std::vector<TraceCall> calls;         ///< in order of their ends on each thread; `call_id` is the index + 1
  std::uint64_t without_shapes = 0;     ///< calls of `calls` whose geometry is all 0, since the trace has no shapes
  std::uint64_t unfinished_chains = 0;  ///< softmaxes of scores whose second product was not found
};

/// Whether calls_of() reads the inputs of the op called `name`; for ReadOptions::keep_inputs.
bool wants_inputs(std::string_view name);

/// The calls of a recording. Of ops nested in each other (aten::scaled_dot_product_attention ⊃
/// _scaled_dot_product_flash_attention ⊃ _flash_attention_forward) the innermost is the call. A layer is the innermost
/// nn.Module around the call. A backward is linked to its forward by autograd's sequence number; where one number
/// covers many (torch.compile), calls of equal geometry are paired last to first.
TraceCalls calls_of(const records::TraceRecording& recording);

}  // namespace headscope::capture::trace
