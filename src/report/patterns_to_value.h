#pragma once

#include "headscope/patterns.h"
#include "headscope/tolerance.h"
#include "headscope/value.h"

namespace headscope::report {

Value::Object to_value(const PatternSection& section);
Value::Object to_value(const ToleranceSection& section);

}  // namespace headscope::report
