#include "correlate/op_times.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace headscope::correlate {
namespace {

using records::Launch;
using records::OpSpan;

std::int64_t end_of(const OpSpan& op) {
  return op.span.end_ns == 0 ? std::numeric_limits<std::int64_t>::max() : op.span.end_ns;
}

}  // namespace

void name_ops_of(std::span<Launch> launches, std::vector<OpSpan> ops) {
  std::ranges::sort(ops, {}, [](const OpSpan& op) { return std::tuple(op.thread, op.op); });
  std::vector<Launch*> in_order;
  in_order.reserve(launches.size());
  std::ranges::transform(launches, std::back_inserter(in_order), [](Launch& launch) { return &launch; });
  std::ranges::stable_sort(in_order, {},
                           [](const Launch* launch) { return std::tuple(launch->thread, launch->start_ns); });

  std::vector<const OpSpan*> open;  // of one thread, innermost last
  auto next = ops.begin();
  for (Launch* launch : in_order) {
    while (next != ops.end() && next->thread < launch->thread) {
      ++next;
    }
    const OpSpan* any = next != ops.end() && next->thread == launch->thread ? &*next : nullptr;
    if (any == nullptr && next != ops.begin() && std::prev(next)->thread == launch->thread) {
      any = &*std::prev(next);
    }
    for (; next != ops.end() && next->thread == launch->thread && next->span.start_ns <= launch->start_ns; ++next) {
      open.push_back(&*next);
    }
    std::erase_if(
        open, [launch](const OpSpan* op) { return op->thread != launch->thread || end_of(*op) <= launch->start_ns; });
    launch->op = open.empty() ? 0 : open.back()->op;
    launch->thread = any == nullptr ? 0 : any->system_thread;
  }
}

}  // namespace headscope::correlate
