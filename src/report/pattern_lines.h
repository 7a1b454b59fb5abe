#pragma once

#include <string>
#include <vector>

#include "headscope/patterns.h"
#include "headscope/tolerance.h"

namespace headscope::report {

/// Lines of a text report: how many heads have which pattern, and the heads that collapsed.
std::vector<std::string> pattern_lines(const PatternSection& section);
/// How many heads could do with less, and what that saves.
std::string tolerance_line(const ToleranceSection& section);

}  // namespace headscope::report
