#pragma once

#include <span>
#include <vector>

#include "records/device_activity.h"

namespace headscope::correlate {

/// Gives launches that carry no ids the op that was open on their thread when they began, the innermost of them, and
/// the system's number of that thread; 0 for threads without ops. Ops that did not end count as open to the last.
void name_ops_of(std::span<records::Launch> launches, std::vector<records::OpSpan> ops);

}  // namespace headscope::correlate
