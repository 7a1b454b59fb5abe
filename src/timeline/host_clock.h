#pragma once

#include <cstdint>

namespace headscope::timeline {

/// CLOCK_REALTIME in nanoseconds: CUPTI's default clock on Linux.
std::int64_t realtime_ns() noexcept;

/// CLOCK_REALTIME less CLOCK_MONOTONIC at an instant of the former, both in nanoseconds.
struct HostClockPoint {
  std::int64_t realtime_ns = 0;
  std::int64_t lead_ns = 0;
};

/// The tightest of some readings, right to about the cost of a clock call (30 ns).
HostClockPoint read_host_clocks() noexcept;

/// CLOCK_REALTIME → CLOCK_MONOTONIC between two instants. The lead is taken to change evenly from the one to the
/// other, as NTP slews it; outside it is that of the nearer instant.
struct RealtimeToMonotonic {
  HostClockPoint begin;
  HostClockPoint end;

  [[nodiscard]] std::int64_t operator()(std::int64_t realtime_ns) const noexcept;
};

}  // namespace headscope::timeline
