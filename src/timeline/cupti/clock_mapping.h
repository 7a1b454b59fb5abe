#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "timeline/host_clock.h"

namespace headscope::timeline::cupti {

/// CUPTI's clock and CLOCK_REALTIME at one instant.
struct ClockPoint {
  std::int64_t realtime_ns = 0;
  std::uint64_t ticks = 0;
};

/// CUPTI's clock → CLOCK_REALTIME, from a point at each end of a session. CUPTI's clock is CLOCK_REALTIME by
/// default. Another client may have given it one of its own (Kineto: the processor's counter), for good.
class ClockMapping {
 public:
  ClockMapping(const ClockPoint& begin, const ClockPoint& end);

  /// Unknown where the clock changed in between, or did not run.
  [[nodiscard]] std::optional<std::int64_t> to_realtime(std::uint64_t ticks) const noexcept;

  [[nodiscard]] bool known() const noexcept { return kind_ != Kind::kUnknown; }
  [[nodiscard]] bool identity() const noexcept { return kind_ == Kind::kIdentity; }

 private:
  enum class Kind : std::uint8_t { kUnknown, kIdentity, kLinear };

  Kind kind_ = Kind::kUnknown;
  ClockPoint begin_;
  std::int64_t realtime_span_ = 0;
  std::int64_t tick_span_ = 0;
};

/// Reads the host's clock before and after CUPTI's, several times; the tightest pair wins. `read_ticks` gives an
/// optional, empty when CUPTI's clock fails.
template <class ReadHost, class ReadTicks>
std::optional<ClockPoint> tightest_point(ReadHost&& read_host, ReadTicks&& read_ticks) {
  constexpr int kReadings = 9;
  std::optional<ClockPoint> best;
  std::int64_t tightest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    const std::int64_t before = read_host();
    const std::optional<std::uint64_t> ticks = read_ticks();
    const std::int64_t after = read_host();
    // A clock that was set back in between gives a negative bracket.
    if (ticks && after >= before && after - before < tightest) {
      tightest = after - before;
      best = ClockPoint{before + tightest / 2, *ticks};
    }
  }
  return best;
}

}  // namespace headscope::timeline::cupti
