#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headscope::timeline::trace {

/// JSON tokens as traces hold them: plain, or quoted as some tools write numbers.

/// An integer that fits; fractions and exponents are no integers.
std::optional<std::int64_t> integer_of(std::string_view token) noexcept;

/// Microseconds as nanoseconds, from the decimal digits (a double has too few for a time since 1970): what lies below
/// a nanosecond is rounded to the nearest. std::nullopt for what is no number, or not between −2⁶² and 2⁶² ns,
/// so that a time and a duration can be added.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) noexcept;

/// The text of a quoted token without its quotes, escapes left as they are; other tokens as they are.
std::string_view unquoted(std::string_view token) noexcept;

}  // namespace headscope::timeline::trace
