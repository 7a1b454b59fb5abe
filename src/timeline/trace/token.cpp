#include "timeline/trace/token.h"

#include <charconv>
#include <cstddef>

namespace headscope::timeline::trace {
namespace {

__extension__ using Wide = __int128;

/// Two of them can be added.
constexpr std::int64_t kLimit = (std::int64_t{1} << 62) - 1;
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

/// Goes past the digits at the front, of which there may be `most`; more, or none: false.
bool take_digits(std::string_view& text, std::size_t most, std::int64_t& value, std::size_t& count) noexcept {
  for (count = 0; count < text.size() && is_digit(text[count]); ++count) {
    if (count == most) {
      return false;
    }
    value = value * 10 + (text[count] - '0');
  }
  text.remove_prefix(count);
  return count > 0;
}

/// Most tokens: few digits and nothing else.
std::optional<std::int64_t> plain_integer(std::string_view token) noexcept {
  constexpr std::size_t kMostDigits = 18;
  std::int64_t value = 0;
  std::size_t count = 0;
  return take_digits(token, kMostDigits, value, count) && token.empty() ? std::optional(value) : std::nullopt;
}

/// Most times: digits, and up to three decimals; at most 18 digits in all.
std::optional<std::int64_t> plain_nanoseconds(std::string_view token) noexcept {
  constexpr std::size_t kMostDigits = 15;
  constexpr std::int64_t kScale[] = {1000, 100, 10, 1};
  std::int64_t value = 0;
  std::size_t count = 0;
  if (!take_digits(token, kMostDigits, value, count)) {
    return std::nullopt;
  }
  count = 0;
  if (!token.empty()) {
    const bool point = token.front() == '.';
    token.remove_prefix(1);
    if (!point || !take_digits(token, 3, value, count) || !token.empty()) {
      return std::nullopt;
    }
  }
  return value * kScale[count];
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
  if (const std::optional<std::int64_t> plain = plain_integer(token)) {
    return plain;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) noexcept {
  std::string_view token = trimmed(unquoted(microseconds));
  if (const std::optional<std::int64_t> plain = plain_nanoseconds(token)) {
    return plain;
  }
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
