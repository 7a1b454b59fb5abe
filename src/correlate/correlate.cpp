#include "correlate/correlate.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "correlate/launch_owners.h"

namespace headscope::correlate {
namespace {

using records::DeviceSpan;
using records::DeviceWork;
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

/// Time covered by spans that come in order of their start.
class Cover {
 public:
  void add(std::int64_t start_ns, std::int64_t end_ns) {
    if (empty_) {
      covered_to_ = start_ns;
      empty_ = false;
    }
    idle_ += std::max<std::int64_t>(start_ns - covered_to_, 0);
    covered_to_ = std::max(covered_to_, end_ns);
  }
  /// Between the first start and the last end.
  [[nodiscard]] std::int64_t idle_ns() const noexcept { return idle_; }

 private:
  bool empty_ = true;
  std::int64_t covered_to_ = 0;
  std::int64_t idle_ = 0;
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

/// A span of a call.
struct Owned {
  const DeviceSpan* span = nullptr;
  const records::Launch* launch = nullptr;
  std::int64_t busy_until = 0;
  KernelPart part = KernelPart::kAttention;
};

KernelPart part_of(const CallWindow& window, const LaunchOwner& owner, const DeviceSpan& span, KernelNames& names) {
  if (owner.between_ops) {
    return window.device_ops.outer != 0 && window.holds_other_work ? KernelPart::kOther : KernelPart::kGlue;
  }
  const bool is_attention = !window.holds_other_work || (span.kind == DeviceSpan::Kind::kKernel &&
                                                         names.of(span.name).kind != KernelName::Kind::kNoAttention);
  return is_attention ? KernelPart::kAttention : KernelPart::kOther;
}

std::shared_ptr<const DeviceWork> work_of(std::vector<Owned>& owned, bool complete) {
  auto work = std::make_shared<DeviceWork>();
  std::ranges::stable_sort(owned, {}, [](const Owned& o) { return o.span->start_ns; });
  std::int64_t sums[] = {0, 0, 0};
  Cover cover;
  for (const Owned& o : owned) {
    const std::int64_t time = o.span->timed() ? o.span->end_ns - o.span->start_ns : 0;
    work->kernels.push_back({o.span->name, o.part, time, o.span->stream, o.span->grid});
    sums[static_cast<std::size_t>(o.part)] += time;
    cover.add(o.span->start_ns, o.span->end_ns);
  }
  if (!complete || owned.empty()) {
    return work;
  }
  work->attention_ns = sums[static_cast<std::size_t>(KernelPart::kAttention)];
  work->glue_ns = sums[static_cast<std::size_t>(KernelPart::kGlue)];
  work->other_ns = sums[static_cast<std::size_t>(KernelPart::kOther)];
  work->gap_ns = cover.idle_ns();
  const Owned& first = owned.front();
  const std::int64_t delay = first.span->start_ns - first.launch->start_ns;
  if (delay >= 0) {  // else the clocks of host and device disagree
    (first.busy_until <= first.launch->start_ns ? work->launch_latency_ns : work->queue_ns) = delay;
  }
  return work;
}

}  // namespace

Correlated correlate(std::span<const CallWindow> windows, const records::DeviceActivity& activity) {
  const std::vector<LaunchOwner> owners = owners_of(activity.launches, windows);
  const LaunchIndex launches(activity.launches);
  const StreamOrder streams(activity.spans);
  KernelNames names;

  Correlated result;
  std::vector<std::vector<Owned>> owned(windows.size());
  std::vector<bool> complete(windows.size(), true);
  std::vector<bool> seen(activity.launches.size(), false);
  for (const Placed& placed : streams.order()) {
    const std::uint32_t i = placed.span;
    const DeviceSpan& span = activity.spans[i];
    const std::uint32_t launch = launches.find(span.correlation);
    LaunchOwner owner;
    const bool announced = launch != LaunchIndex::kNone && activity.launches[launch].op != 0;
    if (launch == LaunchIndex::kNone) {
      ++result.spans_without_launch;
    } else {
      seen[launch] = true;
      owner = owners[launch];
    }
    if (owner.call != LaunchOwner::kNone) {
      const KernelPart part = part_of(windows[owner.call], owner, span, names);
      owned[owner.call].push_back({&span, &activity.launches[launch], streams.busy_until(i), part});
      complete[owner.call] = complete[owner.call] && (span.timed() || span.kind != DeviceSpan::Kind::kKernel);
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
