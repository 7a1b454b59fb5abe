#include "correlate/launch_owners.h"

#include <algorithm>
#include <tuple>

namespace headscope::correlate {
namespace {

struct Window {
  std::uint64_t thread = 0;
  records::HostSpan span;
  LaunchOwner owner;
};

/// By thread and start; of those that start together the outermost first.
std::vector<Window> nested(std::span<const CallWindow> windows) {
  std::vector<Window> all;
  for (std::uint32_t call = 0; call < windows.size(); ++call) {
    const CallWindow& window = windows[call];
    if (window.ops.size() > 1 || window.device_ops.first != window.device_ops.last) {
      all.push_back({window.thread, window.whole, {call, true}});
    }
    for (const records::HostSpan& op : window.ops) {
      all.push_back({window.thread, op, {call, false}});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Window& window) {
    return std::tuple(window.thread, window.span.start_ns, -window.span.end_ns, !window.owner.between_ops);
  });
  return all;
}

/// The windows whose ops have ids.
class OpOwners {
 public:
  explicit OpOwners(std::span<const CallWindow> windows) : windows_(windows) {
    for (std::uint32_t call = 0; call < windows.size(); ++call) {
      if (windows[call].device_ops.outer != 0) {
        by_op_.push_back(call);
      }
    }
    std::ranges::sort(by_op_, {}, [&](std::uint32_t call) {
      return std::tuple(windows[call].device_ops.thread, windows[call].device_ops.outer);
    });
  }

  [[nodiscard]] LaunchOwner of(const records::Launch& launch) const {
    const auto after =
        std::ranges::upper_bound(by_op_, std::tuple(launch.thread, launch.op), {}, [&](std::uint32_t call) {
          const records::OpRange& ops = windows_[call].device_ops;
          return std::tuple(std::uint64_t{ops.thread}, ops.outer);
        });
    // Chains may be woven into each other, so that an op between two of one call's is another's.
    constexpr int kMostWoven = 8;
    auto at = after;
    for (int looked = 0; at != by_op_.begin() && looked < kMostWoven; ++looked) {
      const std::uint32_t call = *--at;
      const records::OpRange& ops = windows_[call].device_ops;
      if (ops.thread != launch.thread) {
        break;
      }
      const bool own = ops.holds(launch.op);
      if (own || (ops.outer < ops.first && launch.op <= ops.last)) {
        return {call, !own};
      }
    }
    return {};
  }

 private:
  std::span<const CallWindow> windows_;
  std::vector<std::uint32_t> by_op_;  // by thread and first id
};

/// When and where a launch began; sorted by itself, it is read without a jump to the launch.
struct Begun {
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::uint32_t launch = 0;
};

std::vector<Begun> by_thread_and_start(std::span<const records::Launch> launches) {
  std::vector<Begun> begun;
  begun.reserve(launches.size());
  for (std::uint32_t i = 0; i < launches.size(); ++i) {
    begun.push_back({launches[i].thread, launches[i].start_ns, i});
  }
  std::ranges::sort(begun, {}, [](const Begun& launch) { return std::tuple(launch.thread, launch.start_ns); });
  return begun;
}

}  // namespace

std::vector<LaunchOwner> owners_of(std::span<const records::Launch> launches, std::span<const CallWindow> windows) {
  const std::vector<Begun> in_order = by_thread_and_start(launches);
  std::vector<LaunchOwner> owners(launches.size());
  const std::vector<Window> all = nested(windows);
  const OpOwners by_op(windows);
  std::vector<const Window*> open;  // innermost last
  std::size_t next = 0;
  for (const Begun& begun_launch : in_order) {
    const std::uint32_t i = begun_launch.launch;
    const records::Launch& launch = launches[i];
    const auto begun = [&launch](const Window& window) {
      return std::tuple(window.thread, window.span.start_ns) <= std::tuple(launch.thread, launch.start_ns);
    };
    for (; next < all.size() && begun(all[next]); ++next) {
      open.push_back(&all[next]);
    }
    std::erase_if(open, [&launch](const Window* window) {
      return window->thread != launch.thread || window->span.end_ns <= launch.start_ns;
    });
    if (launch.of_graph) {
      continue;
    }
    if (launch.op != 0) {
      owners[i] = by_op.of(launch);
    } else if (!open.empty()) {
      owners[i] = open.back()->owner;
    }
  }
  return owners;
}

LaunchIndex::LaunchIndex(std::span<const records::Launch> launches) {
  entries_.reserve(launches.size());
  for (std::uint32_t i = 0; i < launches.size(); ++i) {
    if (launches[i].correlation != 0) {
      entries_.push_back({launches[i].correlation, i});
    }
  }
  std::ranges::stable_sort(entries_, {}, &Entry::correlation);
}

std::uint32_t LaunchIndex::find(std::uint32_t correlation) const noexcept {
  const auto found = std::ranges::lower_bound(entries_, correlation, {}, &Entry::correlation);
  return found == entries_.end() || found->correlation != correlation ? kNone : found->launch;
}

}  // namespace headscope::correlate
