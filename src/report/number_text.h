#pragma once

#include <string>
#include <string_view>

#include "headscope/types.h"

namespace headscope::report {

/// "1234567".
std::string decimal(Count value);
/// "1,234,567": for numbers that are compared exactly.
std::string grouped(Count value);
/// Three significant digits without an exponent down to 10⁻⁶: "0.500", "12.3", "1234".
std::string three_digits(double value);
/// Three significant digits with an SI prefix (powers of 1000): "850 B", "4.19 MB", "1.07 GFLOP".
std::string si(double value, std::string_view unit);
/// "850 ns", "12.3 µs", "1.23 s".
std::string duration(Nanoseconds time);
/// "41.2%"; below 0.05 % and above 0: "<0.1%".
std::string percent(double share);

}  // namespace headscope::report
