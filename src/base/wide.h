#pragma once

#include <cstdint>
#include <optional>

namespace headscope::base {

/// Intermediates of exact arithmetic on counts.
__extension__ using Wide = unsigned __int128;

/// `value` where it fits 64 bits: a count that does not is unknown, never cut off.
constexpr std::optional<std::uint64_t> fit(Wide value) noexcept {
  if ((value >> 64) != 0) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(value);
}

}  // namespace headscope::base
