#pragma once

#include "correlate/correlate.h"
#include "records/attention_call.h"

namespace headscope::correlate {

/// The call that a kernel without an op stands for: its time and device are known, its shapes and layer are not.
records::AttentionCall call_of(const LoneKernel& lone);

}  // namespace headscope::correlate
