#include "correlate/call_work.h"

namespace headscope::correlate {

std::shared_ptr<const records::DeviceWork> work_of(std::vector<Owned>& owned, bool complete) {
  auto work = std::make_shared<records::DeviceWork>();
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
  work->attention_ns = sums[static_cast<std::size_t>(records::KernelPart::kAttention)];
  work->glue_ns = sums[static_cast<std::size_t>(records::KernelPart::kGlue)];
  work->other_ns = sums[static_cast<std::size_t>(records::KernelPart::kOther)];
  work->gap_ns = cover.idle_ns();
  const Owned& first = owned.front();
  if (first.launch == nullptr) {
    return work;
  }
  const std::int64_t delay = first.span->start_ns - first.launch->start_ns;
  if (delay >= 0) {  // else the clocks of host and device disagree
    (first.busy_until <= first.launch->start_ns ? work->launch_latency_ns : work->queue_ns) = delay;
  }
  return work;
}

}  // namespace headscope::correlate
