#pragma once

#include <string>
#include <vector>

#include "headscope/stats.h"

namespace headscope::report {

/// A line for each of generation, latency by key length, KV caches and stages that the figures tell of.
std::vector<std::string> inference_lines(const Stats& stats);

}  // namespace headscope::report
