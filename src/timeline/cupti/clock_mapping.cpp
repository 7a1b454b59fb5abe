#include "timeline/cupti/clock_mapping.h"

namespace headscope::timeline::cupti {
namespace {

__extension__ using SignedWide = __int128;

/// Clocks apart by less are taken for one: far above an error of calibration, far below any foreign clock's offset.
constexpr std::int64_t kSameClockNs = 1'000'000;

bool is_realtime(const ClockPoint& point) {
  const SignedWide offset = static_cast<SignedWide>(point.ticks) - point.realtime_ns;
  return offset > -kSameClockNs && offset < kSameClockNs;
}

}  // namespace

ClockMapping::ClockMapping(const ClockPoint& begin, const ClockPoint& end)
    : begin_(begin),
      realtime_span_(end.realtime_ns - begin.realtime_ns),
      tick_span_(static_cast<std::int64_t>(end.ticks - begin.ticks)) {
  const bool own = is_realtime(begin);
  if (own != is_realtime(end)) {
    return;
  }
  if (own) {
    kind_ = Kind::kIdentity;
  } else if (realtime_span_ > 0 && tick_span_ > 0) {
    kind_ = Kind::kLinear;
  }
}

std::optional<std::int64_t> ClockMapping::to_realtime(std::uint64_t ticks) const noexcept {
  switch (kind_) {
    case Kind::kUnknown:
      return std::nullopt;
    case Kind::kIdentity:
      return static_cast<std::int64_t>(ticks);
    case Kind::kLinear:
      break;
  }
  // The product has up to 2 · 63 bits, and rounds to the nearest nanosecond.
  const SignedWide since = static_cast<SignedWide>(ticks) - static_cast<SignedWide>(begin_.ticks);
  const SignedWide doubled = 2 * since * realtime_span_ + (since < 0 ? -tick_span_ : tick_span_);
  return begin_.realtime_ns + static_cast<std::int64_t>(doubled / (2 * static_cast<SignedWide>(tick_span_)));
}

}  // namespace headscope::timeline::cupti
