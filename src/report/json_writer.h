#pragma once

#include <string>

#include "headscope/value.h"

namespace headscope::report {

/// `value` as JSON (RFC 8259), always valid UTF-8: bytes that are not are replaced by U+FFFD.
/// NaN and infinities are null. Integers beyond ±2⁵³ are decimal strings. A double always has a point
/// or an exponent, so that readers keep its type. `indent` spaces a level; negative: a single line.
///
/// Written here rather than taken from a library: it is a walk over a variant, while JSON libraries
/// bring a document type of their own, know no 128-bit integers, and would be the core's only
/// dependency beside fmt.
std::string write_json(const Value& value, int indent);

}  // namespace headscope::report
