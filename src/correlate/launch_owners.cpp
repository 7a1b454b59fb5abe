#include "correlate/launch_owners.h"

#include <algorithm>
#include <tuple>

#include "correlate/op_owners.h"

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
