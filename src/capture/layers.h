#pragma once

#include <cstdint>

#include "headscope/annotate.h"

namespace headscope::capture {

/// What intern_layer was told for `label`; nullptr for 0 and unknown labels. Reads without a lock:
/// entries never move and are never erased.
const LayerInfo* layer_info(std::uint32_t label) noexcept;

/// Innermost label that this thread has entered; 0: none.
std::uint32_t current_layer() noexcept;

}  // namespace headscope::capture
