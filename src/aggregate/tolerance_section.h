#pragma once

#include "aggregate/aggregate.h"
#include "aggregate/layer_table.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// Fills the tolerance of `stats`, with no heads' cheapest setting, since the bound is not known here.
void fill_tolerance(const Aggregate& aggregate, const LayerTable& layers, Stats& stats);

/// Sets the bound, and each head's cheapest setting within it.
void apply_bound(double bound, ToleranceSection& section);

}  // namespace headscope::aggregate
