#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/scaled_dot_product_attention_ops.h>

#include <optional>
#include <utility>

#include "capture/torch/delivery.h"
#include "capture/torch/frame.h"
#include "capture/torch/hooked_op.h"
#include "capture/torch/thread_state.h"
#include "capture/torch/typed_kernel.h"

namespace headscope::capture::torch {
namespace {

/// Makes a frame the thread's innermost for the time of a redispatch.
class FrameScope {
 public:
  FrameScope(ThreadState& state, Frame& frame) noexcept : state_(state), outer_(state.frame) { state.frame = &frame; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;
  ~FrameScope() { leave(); }

  void leave() noexcept { state_.frame = outer_; }

 private:
  ThreadState& state_;
  Frame* outer_;
};

/// One observed composite op. When the op throws before its attention was done, the call counts as failed. A
/// call that was done, or has its probabilities inside a backward pass, is kept: activation checkpointing leaves a
/// recompute by an exception as soon as the last tensor that it needs is saved.
class FrameCapture {
 public:
  FrameCapture(ThreadState& state, const records::Watch& watch) noexcept
      : state_(state), own_cost_(state), watch_(watch) {}
  FrameCapture(const FrameCapture&) = delete;
  FrameCapture& operator=(const FrameCapture&) = delete;
  ~FrameCapture() {
    if (!redispatch_) {
      return;
    }
    if (!frame_.inner) {
      take_scores();
    }
    if (frame_.inner) {
      close({});
    } else {
      sink()->count_failed_call();
    }
  }

  void open(const OpEntry& entry, const ArgumentIndex& /*index*/, const Arguments& arguments) noexcept {
    try {
      if (open_frame(frame_, entry, watch_, arguments, state_)) {
        scope_.emplace(state_, frame_);
        redispatch_.emplace(state_, watch_, frame_.arguments.q.device,
                            watch_.memory ? expected_allocations(frame_) : ExpectedAllocations{},
                            Redispatch::Inside::kObserved);
      }
    } catch (...) {
      scope_.reset();
      sink()->count_hook_error();
    }
  }

  void close(const Results& /*results*/) noexcept {
    if (!redispatch_) {
      return;
    }
    redispatch_->stop();
    scope_.reset();
    try {
      close_frame(frame_, *redispatch_, state_);
    } catch (...) {
      sink()->count_hook_error();
    }
    own_cost_.finish(redispatch_->start_ns(), redispatch_->end_ns());
    redispatch_.reset();
  }

 private:
  void take_scores() noexcept {
    if (auto scores = state_.recogniser.take_scores_since(redispatch_->start_ns())) {
      deliver_chain(state_, *std::move(scores), watch_.sessions);
    }
  }

  ThreadState& state_;
  OwnCost own_cost_;
  records::Watch watch_;
  Frame frame_;
  std::optional<FrameScope> scope_;
  std::optional<Redispatch> redispatch_;
};

}  // namespace

void CompositeHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = redispatch_to_.empty() ? keys & kAfterBackendSelect : redispatch_to_;
  const records::Watch watching = watch();
  ThreadState* const state = observer(watching.sessions != 0);
  if (state == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  FrameCapture capture(*state, watching);
  const ArgumentIndex& positions = index(op);
  capture.open(entry(), positions, Arguments(positions, *stack));
  op.redispatchBoxed(next, stack);
  capture.close({});
}

std::optional<c10::KernelFunction> typed_composite_kernel(const OpEntry& entry, c10::DispatchKeySet redispatch_to) {
  if (entry.info.name == "aten::scaled_dot_product_attention") {
    return make_typed_kernel<at::_ops::scaled_dot_product_attention, FrameCapture>(entry, redispatch_to);
  }
  return std::nullopt;
}

}  // namespace headscope::capture::torch
