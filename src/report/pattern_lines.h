#pragma once

#include <string>
#include <vector>

#include "headscope/patterns.h"

namespace headscope::report {

/// Lines of a text report: how many heads have which pattern, and the heads that collapsed.
std::vector<std::string> pattern_lines(const PatternSection& section);

}  // namespace headscope::report
