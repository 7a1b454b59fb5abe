#pragma once

#include "aggregate/aggregate.h"
#include "aggregate/layer_table.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// Fills the patterns of `stats`, and from them those of its forward head rows, which are there already.
void fill_patterns(const Aggregate& aggregate, const LayerTable& layers, Stats& stats);

/// Gives the rows of stats.kv_cache their attended_share, where patterns were sampled.
void fill_attended_share(Stats& stats);

}  // namespace headscope::aggregate
