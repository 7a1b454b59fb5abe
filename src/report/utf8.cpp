#include "report/utf8.h"

#include <cstdint>

namespace headscope::report {
namespace {

bool continues(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// Length of the valid sequence that `text` starts with; 0 when it starts with none (RFC 3629: no
/// overlong form, no surrogate, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) {
      return 0;
    }
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";  // U+FFFD
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::size_t display_width(std::string_view text) noexcept {
  std::size_t characters = 0;
  for (const char c : text) {
    characters += continues(c) ? 0U : 1U;
  }
  return characters;
}

std::size_t byte_of_character(std::string_view text, std::size_t n) noexcept {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!continues(text[i]) && seen++ == n) {
      return i;
    }
  }
  return text.size();
}

}  // namespace headscope::report
