#include "timeline/trace/token.h"

#include <charconv>
#include <cstddef>

namespace headscope::timeline::trace {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kLimit = std::int64_t{1} << 62;
/// Enough for ±2⁶² with three decimals and more; further digits are below a nanosecond or beyond the limit.
constexpr Wide kDigitsLimit = Wide{1} << 120;

bool is_digit(char byte) noexcept { return byte >= '0' && byte <= '9'; }

bool is_space(char byte) noexcept { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  return text;
}

/// digits · 10^power, rounded to the nearest.
std::optional<std::int64_t> scaled(Wide digits, std::int64_t power) noexcept {
  for (; power > 0 && digits != 0; --power) {
    digits *= 10;
    if (digits > kLimit) {
      return std::nullopt;
    }
  }
  int last = 0;
  for (; power < 0 && (digits != 0 || last != 0); ++power) {
    last = static_cast<int>(digits % 10);
    digits /= 10;
  }
  digits += last >= 5 ? 1 : 0;
  if (digits > kLimit) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(digits);
}

}  // namespace

std::string_view unquoted(std::string_view token) noexcept {
  token = trimmed(token);
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    token = token.substr(1, token.size() - 2);
  }
  return token;
}

std::optional<std::int64_t> integer_of(std::string_view token) noexcept {
  token = trimmed(unquoted(token));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) noexcept {
  std::string_view token = trimmed(unquoted(microseconds));
  const bool negative = !token.empty() && token.front() == '-';
  if (negative) {
    token.remove_prefix(1);
  }
  Wide digits = 0;
  std::int64_t power = 3;  // of ten: nanoseconds in a microsecond
  bool any = false;
  bool fraction = false;
  std::size_t at = 0;
  for (; at < token.size(); ++at) {
    if (token[at] == '.' && !fraction) {
      fraction = true;
    } else if (is_digit(token[at])) {
      any = true;
      if (digits < kDigitsLimit) {
        digits = digits * 10 + (token[at] - '0');
        power -= fraction ? 1 : 0;
      } else if (!fraction) {
        ++power;
      }
    } else {
      break;
    }
  }
  if (!any) {
    return std::nullopt;
  }
  if (at < token.size()) {
    if (token[at] != 'e' && token[at] != 'E') {
      return std::nullopt;
    }
    std::string_view exponent = token.substr(at + 1);
    if (!exponent.empty() && exponent.front() == '+') {
      exponent.remove_prefix(1);
    }
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
    if (error != std::errc() || end != exponent.data() + exponent.size()) {
      return std::nullopt;
    }
    power += value;
  }
  const std::optional<std::int64_t> value = scaled(digits, power);
  return value && negative ? -*value : value;
}

}  // namespace headscope::timeline::trace
