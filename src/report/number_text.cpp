#include "report/number_text.h"

#include <array>
#include <cmath>
#include <cstddef>

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <fmt/format.h>

namespace headscope::report {

std::string decimal(Count value) { return fmt::format("{}", value); }

std::string grouped(Count value) {
  std::string text = decimal(value);
  for (std::size_t from_right = 3; from_right < text.size(); from_right += 4) {
    text.insert(text.size() - from_right, ",");
  }
  return text;
}

std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  if (!(magnitude < 1e15)) {  // also NaN
    return fmt::format("{:.2e}", value);
  }
  if (magnitude == 0.0) {
    return "0";
  }
  if (magnitude < 1e-6) {
    return fmt::format("{:.0e}", value);
  }
  // Rounding may carry into one digit more (9.996 → "10.00"), so the exponent is that of the rounded value.
  const int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  const double unit = std::pow(10.0, exponent - 2);
  const bool carries = std::round(magnitude / unit) >= 1000.0;
  const int decimals = 2 - exponent - (carries ? 1 : 0);
  return fmt::format("{:.{}f}", value, decimals > 0 ? decimals : 0);
}

std::string si(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  // 999.5 would be written as 1000.
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000.0;
    ++prefix;
  }
  const bool whole = prefix == 0 && value == std::floor(value);
  return fmt::format("{} {}{}", whole ? fmt::format("{:.0f}", value) : three_digits(value), kPrefixes[prefix], unit);
}

std::string duration(Nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (std::abs(ns) < 999.5) {
    return fmt::format("{} ns", time.count());
  }
  if (std::abs(ns) < 999.5e3) {
    return three_digits(ns / 1e3) + " µs";
  }
  if (std::abs(ns) < 999.5e6) {
    return three_digits(ns / 1e6) + " ms";
  }
  return three_digits(ns / 1e9) + " s";
}

std::string percent(double share) {
  const double value = share * 100.0;
  return value > 0.0 && value < 0.05 ? "<0.1%" : fmt::format("{:.1f}%", value);
}

}  // namespace headscope::report
