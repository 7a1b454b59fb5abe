#pragma once

#include "records/attention_call.h"

namespace headscope::model {

/// What the allocations of one call were for. Score matrices as counted in capture; copies of K and V, masks and
/// upcasts by the sizes of the allocations under a composite op; the output of a forward and the gradients of a
/// backward from their operands; what the peak holds beyond them is workspace.
records::MemoryParts memory_parts(const records::AttentionCall& call) noexcept;

}  // namespace headscope::model
