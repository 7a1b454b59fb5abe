#pragma once

#include "aggregate/aggregate.h"
#include "aggregate/layer_table.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// Fills the phases, positions and requests of `stats`, and the caches that its calls showed.
void fill_inference(const Aggregate& aggregate, const LayerTable& layers, Stats& stats);

}  // namespace headscope::aggregate
