#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "aggregate/aggregate.h"
#include "headscope/annotate.h"
#include "headscope/stats.h"

namespace headscope::aggregate {

/// What was registered for a label; nullptr when nothing was.
using LayerInfoOf = std::function<const LayerInfo*(std::uint32_t label)>;

/// Fills total, attention_breakdown, heads, patterns, tolerance, phases, positions, requests and calls of `stats`, the
/// sums of its time section by direction, and the call counters of its diagnostics. Its cost follows the number of
/// rows, not of calls.
///
/// Rows are in the order of layer_index, layer, direction, variant, phase, then the rest of the row's key.
/// layer_index is LayerInfo's, else the number of an unnamed layer, else the order of first appearance among all
/// layers; `attention[*]` has none and comes last. Labels with the same name are one layer. `order`: see LayerTable.
void fill_stats(const Aggregate& aggregate, const LayerInfoOf& layer_info, Stats& stats,
                std::span<const std::uint32_t> order = {});

}  // namespace headscope::aggregate
