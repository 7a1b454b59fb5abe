#pragma once

#include <memory>

#include "records/attention_call.h"
#include "records/device_work.h"

namespace headscope::correlate {

/// Gives `call` the times of its kernels; they are unknown where `work` is nullptr. `has_glue`: of a chain of ops,
/// whose glue is told apart.
void set_device_times(records::AttentionCall& call, std::shared_ptr<const records::DeviceWork> work, bool has_glue);

}  // namespace headscope::correlate
