#pragma once

#include <chrono>
#include <cstdint>

namespace headscope::base {

/// CLOCK_MONOTONIC in nanoseconds: the clock of every time in records.
inline std::int64_t monotonic_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace headscope::base
