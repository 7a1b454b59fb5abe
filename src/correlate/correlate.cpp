#include "correlate/correlate.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "correlate/call_work.h"
#include "correlate/launch_owners.h"
#include "correlate/op_owners.h"

namespace headscope::correlate {
namespace {

using records::DeviceSpan;
using records::KernelPart;

/// Each name is read once: a trace has few of them and many kernels.
class KernelNames {
 public:
  const KernelName& of(std::string_view name) {
    const auto [at, is_new] = known_.try_emplace(name);
    if (is_new) {
      at->second = read_kernel_name(name);
    }
    return at->second;
  }

 private:
  std::unordered_map<std::string_view, KernelName> known_;
};

std::uint32_t device_number(const records::Device& device) noexcept {
  return static_cast<std::uint32_t>(device.type) << 8U | static_cast<std::uint8_t>(device.index);
}

/// Where and when a span ran; sorted by itself, it is read without a jump to the span.
struct Placed {
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t span = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  [[nodiscard]] auto on() const noexcept { return std::tuple(device, context, stream); }
};

/// Reads the spans of each stream in order, and tells whether the stream was busy at a moment.
class StreamOrder {
 public:
  explicit StreamOrder(const std::vector<DeviceSpan>& spans) : busy_until_(spans.size(), kIdle) {
    order_.reserve(spans.size());
    for (std::uint32_t i = 0; i < spans.size(); ++i) {
      const DeviceSpan& span = spans[i];
      order_.push_back({device_number(span.device), span.context, span.stream, i, span.start_ns, span.end_ns});
    }
    std::ranges::sort(order_, {}, [](const Placed& placed) {
      return std::tuple_cat(placed.on(), std::tuple(placed.start_ns, placed.span));
    });
    for (std::size_t i = 1; i < order_.size(); ++i) {
      if (order_[i - 1].on() == order_[i].on()) {
        busy_until_[order_[i].span] = std::max(busy_until_[order_[i - 1].span], order_[i - 1].end_ns);
      }
    }
  }

  [[nodiscard]] const std::vector<Placed>& order() const noexcept { return order_; }
  /// When what came before the span on its stream had ended.
  [[nodiscard]] std::int64_t busy_until(std::uint32_t span) const noexcept { return busy_until_[span]; }

 private:
  static constexpr std::int64_t kIdle = INT64_MIN;

  std::vector<Placed> order_;
  std::vector<std::int64_t> busy_until_;
};

std::optional<std::int64_t> idle_of(std::vector<Placed> spans) {
  std::erase_if(spans, [](const Placed& span) { return span.end_ns <= span.start_ns; });
  if (spans.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(spans, {}, [](const Placed& span) { return std::tuple(span.device, span.start_ns); });
  std::int64_t idle = 0;
  Cover cover;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0 && spans[i].device != spans[i - 1].device) {
      idle += cover.idle_ns();
      cover = {};
    }
    cover.add(spans[i].start_ns, spans[i].end_ns);
  }
  return idle + cover.idle_ns();
}

/// Copies and fills without a time are not worth a call's; a kernel's is.
bool leaves_time_known(const DeviceSpan& span) { return span.timed() || span.kind != DeviceSpan::Kind::kKernel; }

KernelPart part_of(const CallWindow& window, const LaunchOwner& owner, const DeviceSpan& span, KernelNames& names) {
  if (owner.between_ops) {
    return window.device_ops.outer != 0 && window.holds_other_work ? KernelPart::kOther : KernelPart::kGlue;
  }
  const bool is_attention = !window.holds_other_work || (span.kind == DeviceSpan::Kind::kKernel &&
                                                         names.of(span.name).kind != KernelName::Kind::kNoAttention);
  return is_attention ? KernelPart::kAttention : KernelPart::kOther;
}

}  // namespace

Correlated correlate(std::span<const CallWindow> windows, const records::DeviceActivity& activity,
                     std::span<const CallWindow> captured) {
  const std::vector<LaunchOwner> owners = owners_of(activity.launches, windows);
  const LaunchIndex launches(activity.launches);
  const StreamOrder streams(activity.spans);
  const OpOwners capturers(captured);
  KernelNames names;

  Correlated result;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Owned>> replayed;  // by launch's id and call
  std::vector<std::vector<Owned>> owned(windows.size());
  std::vector<bool> complete(windows.size(), true);
  std::vector<bool> seen(activity.launches.size(), false);
  for (const Placed& placed : streams.order()) {
    const std::uint32_t i = placed.span;
    const DeviceSpan& span = activity.spans[i];
    const std::uint32_t launch = launches.find(span.correlation);
    LaunchOwner owner;
    const bool announced =
        launch != LaunchIndex::kNone && activity.launches[launch].op != 0 && !activity.launches[launch].of_graph;
    if (launch == LaunchIndex::kNone) {
      ++result.spans_without_launch;
    } else {
      seen[launch] = true;
      owner = owners[launch];
    }
    const LaunchOwner capturer = span.capture.known() ? capturers.of(span.capture) : LaunchOwner{};
    if (capturer.call != LaunchOwner::kNone) {
      const KernelPart part = part_of(captured[capturer.call], capturer, span, names);
      replayed[{span.correlation, capturer.call}].push_back({&span, nullptr, 0, part});
    } else if (owner.call != LaunchOwner::kNone) {
      const KernelPart part = part_of(windows[owner.call], owner, span, names);
      owned[owner.call].push_back({&span, &activity.launches[launch], streams.busy_until(i), part});
      complete[owner.call] = complete[owner.call] && leaves_time_known(span);
    } else if (announced) {
      continue;  // by an op whose call was settled before
    } else if (span.kind == DeviceSpan::Kind::kKernel && names.of(span.name).kind == KernelName::Kind::kAttention) {
      const bool in_graph =
          span.graph_node != 0 || (launch != LaunchIndex::kNone && activity.launches[launch].of_graph);
      result.lone.push_back({&span, names.of(span.name), in_graph});
    }
  }
  std::vector<bool> launched(windows.size(), false);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i].call != LaunchOwner::kNone) {
      launched[owners[i].call] = true;
      complete[owners[i].call] = complete[owners[i].call] && seen[i];
    }
  }
  for (auto& [launch_and_call, spans] : replayed) {
    const auto& [correlation, call] = launch_and_call;
    const bool all_there = spans.size() == captured[call].captured_nodes;
    const bool timed = std::ranges::all_of(spans, [](const Owned& o) { return leaves_time_known(*o.span); });
    Replay& replay = result.replays.emplace_back();
    replay.call = call;
    replay.all_there = all_there;
    replay.work = work_of(spans, all_there && timed);
    replay.spans.reserve(spans.size());
    std::ranges::transform(spans, std::back_inserter(replay.spans), &Owned::span);
  }
  result.calls.resize(windows.size());
  for (std::size_t call = 0; call < windows.size(); ++call) {
    if (launched[call]) {
      result.calls[call] = work_of(owned[call], complete[call]);
    }
  }
  std::ranges::stable_sort(result.lone, {}, [](const LoneKernel& lone) { return lone.span->start_ns; });
  result.device_idle_ns = idle_of(streams.order());
  return result;
}

}  // namespace headscope::correlate
