#pragma once

#include <string_view>

namespace headscope::report {

/// True if all of `text` matches `pattern`: `*` is any run of characters (also none, also dots), `?` one
/// character, every other character itself. Takes at most |pattern| × |text| steps.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

}  // namespace headscope::report
