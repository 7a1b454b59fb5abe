#pragma once

#include "aggregate/aggregate.h"
#include "aggregate/layer_table.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// Fills the layers and spikes of `memory`. A spike is the largest call of a row, or the largest copies of K, V
/// and mask that a call of it needed beforehand.
void fill_memory(const Aggregate& aggregate, const LayerTable& layers, MemorySection& memory);

}  // namespace headscope::aggregate
