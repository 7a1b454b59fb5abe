#pragma once

#include <string>

#include "headscope/inference.h"
#include "headscope/kv_cache.h"
#include "headscope/value.h"

namespace headscope::report {

/// Null for an empty text.
inline Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }

Value::Object to_value(const Range& range);
Value::Object to_value(const PhaseRow& row);
Value::Object to_value(const PositionSeries& series);
Value::Object to_value(const RequestSection& requests);
Value::Object to_value(const StageRow& row);
Value::Object to_value(const KvCacheRow& row);

}  // namespace headscope::report
