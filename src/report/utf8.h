#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headscope::report {

/// `text` with every byte that is no part of valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// Number of characters of valid UTF-8: what a terminal shows of text without wide or combining ones.
std::size_t display_width(std::string_view text) noexcept;

/// The byte at which the n-th character of valid UTF-8 starts; the size when there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t n) noexcept;

}  // namespace headscope::report
