#pragma once

#include "headscope/patterns.h"
#include "headscope/value.h"

namespace headscope::report {

Value::Object to_value(const PatternSection& section);

}  // namespace headscope::report
