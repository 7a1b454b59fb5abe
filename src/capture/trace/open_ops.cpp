#include "capture/trace/open_ops.h"

#include <algorithm>

namespace headscope::capture::trace {

bool is_attention(const TraceOp* op) noexcept {
  if (op == nullptr) {
    return false;
  }
  const OpRole role = op->entry->role;
  return role == OpRole::kComposite || role == OpRole::kFusedForward || role == OpRole::kFusedBackward ||
         role == OpRole::kNativeMha;
}

bool is_eager(const TraceOp* op) noexcept {
  if (op == nullptr) {
    return false;
  }
  const OpRole role = op->entry->role;
  return role == OpRole::kProduct || role == OpRole::kSoftmax || role == OpRole::kSoftmaxBackward;
}

void OpenOps::open(const records::HostOp& op, const TraceOp* known) {
  stack_.push_back({&op, known, innermost_attention(), false});
}

std::size_t OpenOps::innermost_attention() const noexcept {
  if (stack_.empty()) {
    return kNone;
  }
  return is_attention(stack_.back().known) ? stack_.size() - 1 : stack_.back().outer;
}

const records::HostOp& OpenOps::outermost(const Open& open) const noexcept {
  const Open* outermost = &open;
  while (outermost->outer != kNone) {
    outermost = &stack_[outermost->outer];
  }
  return *outermost->op;
}

void OpenOps::mark_attention() noexcept {
  for (std::size_t at = innermost_attention(); at != kNone && !stack_[at].holds_attention; at = stack_[at].outer) {
    stack_[at].holds_attention = true;
  }
}

bool OpenOps::inside_eager() const noexcept {
  return std::any_of(stack_.begin(), stack_.end(), [](const Open& open) { return is_eager(open.known); });
}

std::int64_t OpenOps::sequence() const noexcept {
  const auto found =
      std::find_if(stack_.rbegin(), stack_.rend(), [](const Open& open) { return open.op->sequence >= 0; });
  return found != stack_.rend() ? found->op->sequence : -1;
}

const records::HostOp* OpenOps::backward_node() const noexcept {
  const auto found =
      std::find_if(stack_.rbegin(), stack_.rend(), [](const Open& open) { return open.op->forward_thread != 0; });
  return found != stack_.rend() ? found->op : nullptr;
}

}  // namespace headscope::capture::trace
