#include "correlate/op_owners.h"

#include <algorithm>
#include <tuple>

namespace headscope::correlate {

OpOwners::OpOwners(std::span<const CallWindow> windows) : windows_(windows) {
  for (std::uint32_t call = 0; call < windows.size(); ++call) {
    if (windows[call].device_ops.outer != 0) {
      by_op_.push_back(call);
    }
  }
  std::ranges::sort(by_op_, {}, [&](std::uint32_t call) {
    return std::tuple(windows[call].device_ops.thread, windows[call].device_ops.outer);
  });
}

LaunchOwner OpOwners::of(const records::Launch& launch) const { return of(launch.thread, launch.op, true); }

LaunchOwner OpOwners::of(const records::Capture& capture) const {
  return capture.op != 0 ? of(capture.thread, capture.op, true) : of(capture.thread, capture.after, false);
}

/// `op` is open, or is the newest one that was.
LaunchOwner OpOwners::of(std::uint64_t thread, std::uint64_t op, bool in_op) const {
  const auto after = std::ranges::upper_bound(by_op_, std::tuple(thread, op), {}, [&](std::uint32_t call) {
    const records::OpRange& ops = windows_[call].device_ops;
    return std::tuple(std::uint64_t{ops.thread}, ops.outer);
  });
  // Chains may be woven into each other, so that an op between two of one call's is another's.
  constexpr int kMostWoven = 8;
  auto at = after;
  for (int looked = 0; at != by_op_.begin() && looked < kMostWoven; ++looked) {
    const std::uint32_t call = *--at;
    const records::OpRange& ops = windows_[call].device_ops;
    if (ops.thread != thread) {
      break;
    }
    if (!in_op) {
      if (op >= ops.first && op < ops.last) {
        return {call, true};
      }
      continue;
    }
    const bool own = ops.holds(op);
    if (own || (ops.outer < ops.first && op <= ops.last)) {
      return {call, !own};
    }
  }
  return {};
}

}  // namespace headscope::correlate
