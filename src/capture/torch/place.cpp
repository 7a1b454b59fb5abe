#include "capture/torch/place.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <string>

namespace headscope::capture::torch {
namespace {

using HookStack = decltype(at::impl::SavedTensorDefaultHooksTLS::stack);

const HookStack& hook_stack() { return at::SavedTensorDefaultHooks::get_tls_state().stack; }

/// std::stack shows its top only.
const HookStack::container_type& all_of(const HookStack& stack) {
  struct Opened : HookStack {
    static const container_type& container(const HookStack& of) { return of.*&Opened::c; }
  };
  return Opened::container(stack);
}

/// Of a ForwardPlace or a Repetition.
template <class Place>
void set_hooks(Place& place) {
  const HookStack& stack = hook_stack();
  place.depth = stack.size();
  if (place.depth == 0) {
    return;
  }
  const HookStack::container_type& hooks = all_of(stack);
  for (std::size_t level = 0; level < std::min(place.depth, ForwardPlace::kLevels); ++level) {
    const c10::SafePyObject& unpack = hooks[level].second;
    place.hooks[level] = reinterpret_cast<std::uintptr_t>(unpack.ptr(&unpack.pyinterpreter()));
  }
}

ForwardPlace place_since(std::uint64_t first_node) noexcept {
  ForwardPlace place;
  if (c10::InferenceMode::is_enabled()) {
    return place;
  }
  place.first_node = first_node;
  place.without_gradients = !c10::GradMode::is_enabled();
  try {
    set_hooks(place);
  } catch (...) {
    place.depth = 0;  // the hooks of another interpreter
  }
  if (place.repeatable()) {
    place.graph_task = ::torch::autograd::get_current_graph_task_id();
    place.thread = at::RecordFunction::currentThreadId();
  }
  return place;
}

}  // namespace

bool inside_backward() noexcept { return ::torch::autograd::get_current_node() != nullptr; }

std::uint64_t newest_node() noexcept {
  const std::uint64_t next = at::sequence_number::peek();
  return next == 0 ? 0 : next - 1;
}

ForwardPlace place_below_autograd() noexcept { return place_since(newest_node()); }

ForwardPlace place_above_autograd() noexcept {
  // Without gradients the op makes no node: the newest one is that of the autograd.Function it runs in.
  return place_since(c10::GradMode::is_enabled() ? at::sequence_number::peek() : newest_node());
}

std::optional<OpenForwards::Forward> repeated_forward(OpenForwards& forwards, const records::AttentionCall& call) {
  const auto node = ::torch::autograd::get_current_node();
  if (node == nullptr) {
    return std::nullopt;
  }
  Repetition repetition{.of = Repetition::Of::kSegment,
                        .thread = node->thread_id(),
                        .node = node->sequence_nr(),
                        .graph_task = ::torch::autograd::get_current_graph_task_id(),
                        .interrupted = call.scores_only};
  set_hooks(repetition);
  using Of = Repetition::Of;
  const auto take = [&](Of of) {
    repetition.of = of;
    return forwards.take(call, repetition);
  };
  if (repetition.interrupted) {
    return take(Of::kSegment);  // only a hooked segment ends early
  }
  const std::string name = node->name();
  const bool checkpoint = name.find("Checkpoint") != std::string::npos;
  if (checkpoint) {
    if (const auto found = take(Of::kSinceNode)) {
      return found;
    }
  }
  if (repetition.depth > 0) {
    if (const auto found = take(Of::kSegment)) {
      return found;
    }
  }
  if (name == "CompiledFunctionBackward") {
    return take(Of::kNode);
  }
  return !checkpoint && c10::GradMode::is_enabled() ? take(Of::kSinceNode) : std::nullopt;
}

}  // namespace headscope::capture::torch
