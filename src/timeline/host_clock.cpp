#include "timeline/host_clock.h"

#include <chrono>
#include <limits>

#include "base/clock.h"

namespace headscope::timeline {

std::int64_t realtime_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

HostClockPoint read_host_clocks() noexcept {
  constexpr int kReadings = 9;
  HostClockPoint best;
  std::int64_t tightest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    const std::int64_t before = base::monotonic_ns();
    const std::int64_t realtime = realtime_ns();
    const std::int64_t after = base::monotonic_ns();
    if (after - before < tightest) {
      tightest = after - before;
      best = {realtime, realtime - (before + tightest / 2)};
    }
  }
  return best;
}

std::int64_t RealtimeToMonotonic::operator()(std::int64_t realtime_ns) const noexcept {
  const std::int64_t length = end.realtime_ns - begin.realtime_ns;
  if (length <= 0 || realtime_ns <= begin.realtime_ns) {
    return realtime_ns - begin.lead_ns;
  }
  if (realtime_ns >= end.realtime_ns) {
    return realtime_ns - end.lead_ns;
  }
  const double share = static_cast<double>(realtime_ns - begin.realtime_ns) / static_cast<double>(length);
  const double change = share * static_cast<double>(end.lead_ns - begin.lead_ns);
  return realtime_ns - begin.lead_ns - static_cast<std::int64_t>(change);
}

}  // namespace headscope::timeline
