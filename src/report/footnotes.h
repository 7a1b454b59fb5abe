#pragma once

#include <string>
#include <vector>

#include "headscope/stats.h"

namespace headscope::report {

/// What a reader of the tables must know, a note each: how figures came about, whose clock the time is,
/// masks that were not counted, falls to the math path, what could not be observed, counters of the
/// diagnostics that are not zero, own cost.
std::vector<std::string> footnotes(const Stats& stats);

/// What to look at when no attention was seen.
std::vector<std::string> advice_without_calls(const Stats& stats);

}  // namespace headscope::report
