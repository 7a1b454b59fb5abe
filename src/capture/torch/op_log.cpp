#include "capture/torch/op_log.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/op_ids.h"
#include "capture/torch/thread_state.h"

namespace headscope::capture::torch {

void OpLog::begin() noexcept {
  const std::lock_guard lock(mutex_);
  on_ = true;
  ops_.clear();
}

std::vector<records::OpSpan> OpLog::end() noexcept {
  const std::lock_guard lock(mutex_);
  on_ = false;
  return std::exchange(ops_, {});
}

std::uint64_t OpLog::open_op(const records::Device& /*device*/) noexcept {
  const std::lock_guard lock(mutex_);
  if (!on_ || ops_.size() >= kMostOps) {
    return 0;
  }
  try {
    records::OpSpan& op = ops_.emplace_back();
    op.op = base::next_op_id();
    op.thread = at::RecordFunction::currentThreadId();
    op.system_thread = system_thread(thread_state());
    op.span.start_ns = base::monotonic_ns();
    return op.op;
  } catch (...) {
    return 0;  // out of memory
  }
}

void OpLog::close_op(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto op = std::ranges::lower_bound(ops_, id, {}, &records::OpSpan::op);
  if (op != ops_.end() && op->op == id) {
    op->span.end_ns = base::monotonic_ns();
  }
}

}  // namespace headscope::capture::torch
