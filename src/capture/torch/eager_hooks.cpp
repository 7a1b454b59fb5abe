#include <limits>
#include <optional>
#include <utility>

#include "capture/layers.h"
#include "capture/torch/delivery.h"
#include "capture/torch/frame.h"
#include "capture/torch/hooked_op.h"
#include "capture/torch/pattern_probe.h"
#include "capture/torch/tensor_reader.h"
#include "capture/torch/thread_state.h"

namespace headscope::capture::torch {
namespace {

/// Whether this op is to be looked at; with `detail`, only where somebody asks for it.
bool observed(const records::Watch& watching, bool detail) noexcept {
  return watching.sessions != 0 && watching.eager && (!detail || watching.detail);
}

void report_unfinished(ThreadState& state) noexcept {
  const std::uint64_t unfinished = state.recogniser.unfinished();
  if (unfinished != state.unfinished_reported) {
    sink()->count_unfinished_chains(unfinished - state.unfinished_reported);
    state.unfinished_reported = unfinished;
  }
}

/// Runs `op` between `read`, which says whether its tensors are readable, and `report`, which gets the
/// result and the span. Neither lets an exception out.
template <class Read, class Report>
void observe(const c10::OperatorHandle& op, c10::DispatchKeySet next, ::torch::jit::Stack* stack,
             const ArgumentIndex& index, const records::Watch& watching, ThreadState& state, Read read, Report report) {
  const OwnCost own_cost(state);
  std::optional<Redispatch> redispatch;
  std::optional<TensorView> output;
  try {
    const Arguments arguments(index, *stack);
    if (read(arguments)) {
      if (index.output_argument != ArgumentIndex::kAbsent) {
        const c10::IValue& target = arguments[static_cast<std::size_t>(index.output_argument)];
        if (target.isTensor() && is_readable(target.toTensor())) {
          output = view_of(target.toTensor());
        }
      }
      ExpectedAllocations expected;
      records::Device device;
      if (const c10::IValue& first = arguments[0]; first.isTensor() && is_readable(first.toTensor())) {
        device = device_of(first.toTensor().device());
        expected.device = device.type;
      }
      redispatch.emplace(state, watching, device, expected);
    }
  } catch (...) {
    sink()->count_hook_error();
  }
  op.redispatchBoxed(next, stack);
  if (!redispatch) {
    return;
  }
  redispatch->stop();
  try {
    if (const at::Tensor* result = result_of(index, *stack); result != nullptr && is_readable(*result)) {
      output = view_of(*result);
      state.written.keep(*result);
    }
    if (output && output->dims >= 0) {
      state.recogniser.set_detail(watching.detail);
      report(*output, redispatch->span());
      report_unfinished(state);
    }
  } catch (...) {
    sink()->count_hook_error();
  }
  own_cost.finish(redispatch->start_ns(), redispatch->end_ns());
}

bool read(const Arguments& arguments, Arg arg, TensorView& view) noexcept {
  const std::optional<TensorView> found = arguments.view(arg);
  if (!found || found->dims < 0) {
    return false;
  }
  view = *found;
  return true;
}

/// `dim` counted from the front; the last axis when the argument is absent.
int axis_of(const Arguments& arguments, const TensorView& tensor) noexcept {
  const std::int64_t dim = arguments.integer(Arg::kDim).value_or(-1);
  return static_cast<int>(dim < 0 ? dim + tensor.dims : dim);
}

/// [batch, heads, q, k] of a mask's scores.
records::Geometry score_geometry(const TensorView& scores) noexcept {
  records::Geometry geometry{1, 1, 1, scores.size(-2), scores.size(-1), 0, 0};
  if (scores.dims >= 3) {
    geometry.heads = scores.size(-3);
  }
  for (int axis = 0; axis < scores.dims - 3; ++axis) {
    geometry.batch *= scores.size(axis);
  }
  return geometry;
}

/// True for a fill value that takes a score out of the softmax (the rule of additive masks).
bool masks_out(const Arguments& arguments, std::size_t value_position, c10::ScalarType type) {
  const c10::IValue& value = arguments[value_position];
  double number = 0.0;
  if (value.isScalar()) {
    number = value.toScalar().toDouble();
  } else if (value.isTensor() && is_readable(value.toTensor()) && value.toTensor().device().is_cpu() &&
             value.toTensor().numel() == 1) {
    number = value.toTensor().item().toDouble();
  } else {
    return true;
  }
  switch (type) {
    case c10::ScalarType::Half:
      return number <= -65504.0 / 2;
    case c10::ScalarType::Double:
      return number <= std::numeric_limits<double>::lowest() / 2;
    default:
      return number <= static_cast<double>(std::numeric_limits<float>::lowest()) / 2;
  }
}

/// The operands of an elementwise op in the recogniser's terms.
struct ElementwiseOperands {
  ElementwiseEvent event;
  const at::Tensor* mask = nullptr;
  bool true_is_masked = false;
};

bool larger(const TensorView& a, const TensorView& b) noexcept { return a.elements() > b.elements(); }

bool read_where(const Arguments& arguments, ElementwiseOperands& operands) {
  const c10::IValue& condition = arguments[0];
  if (!condition.isTensor() || !is_readable(condition.toTensor())) {
    return false;
  }
  const auto tensor_at = [&arguments](std::size_t position) -> std::optional<TensorView> {
    const c10::IValue& value = arguments[position];
    if (!value.isTensor() || !value.toTensor().defined() || !is_readable(value.toTensor())) {
      return std::nullopt;
    }
    return view_of(value.toTensor());
  };
  const std::optional<TensorView> kept = tensor_at(1);
  const std::optional<TensorView> replaced = tensor_at(2);
  ElementwiseEvent& event = operands.event;
  if (!kept && !replaced) {
    event.kind = ElementwiseEvent::Kind::kCopy;  // a mask made from two numbers
    event.in = view_of(condition.toTensor());
    return event.in.dims >= 0;
  }
  const bool keeps_second = !kept || (replaced && larger(*replaced, *kept));
  event.in = keeps_second ? *replaced : *kept;
  event.other = view_of(condition.toTensor());
  operands.mask = &condition.toTensor();
  operands.true_is_masked = keeps_second;
  return event.in.dims >= 0 && event.other.dims >= 0;
}

bool read_elementwise(const OpEntry& entry, const Arguments& arguments, ElementwiseOperands& operands) {
  using Kind = ElementwiseEvent::Kind;
  ElementwiseEvent& event = operands.event;
  event.kind = entry.elementwise;
  if (event.kind == Kind::kWhere) {
    return read_where(arguments, operands);
  }
  const c10::IValue* input = arguments.find(Arg::kInput);
  if (input != nullptr && input->isTensorList()) {
    for (const at::Tensor& tensor : input->toTensorVector()) {
      if (!is_readable(tensor)) {
        return false;
      }
      const TensorView view = view_of(tensor);
      if (view.dims >= 0 && (event.in.storage == 0 || larger(view, event.in))) {
        event.in = view;
      }
    }
    return event.in.storage != 0;
  }
  if (!read(arguments, Arg::kInput, event.in)) {
    return false;
  }
  if (entry.only_casts) {
    const at::Tensor& target = arguments[0].toTensor();
    return is_readable(target) && target.scalar_type() != arguments.tensor(Arg::kInput)->scalar_type();
  }
  const at::Tensor* other = arguments.tensor(Arg::kOther);
  if (other == nullptr) {
    return true;
  }
  if (!read(arguments, Arg::kOther, event.other)) {
    return false;
  }
  if (event.kind == Kind::kMaskedFill) {
    operands.true_is_masked = true;
    if (!masks_out(arguments, 2, arguments.tensor(Arg::kInput)->scalar_type())) {
      event.kind = Kind::kArithmetic;
      event.other = TensorView{};
    }
  } else if (event.other.dims == 0) {
    event.other = TensorView{};  // a wrapped number
  } else if (larger(event.other, event.in)) {
    std::swap(event.in, event.other);
    other = arguments.tensor(Arg::kInput);
  }
  operands.mask = other;
  return true;
}

}  // namespace

void ProductHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = keys & kAfterBackendSelect;
  const records::Watch watching = watch();
  ThreadState* const observing = observer(observed(watching, false));
  if (observing == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  ThreadState& state = *observing;
  ProductEvent event;
  observe(
      op, next, stack, index(op), watching, state,
      [&event, &state](const Arguments& arguments) {
        // of baddbmm, `self` is the addend and comes first in the names of the left operand
        if (!read(arguments, Arg::kLeft, event.a) || !read(arguments, Arg::kRight, event.b)) {
          return false;
        }
        for (const Arg operand : {Arg::kLeft, Arg::kRight}) {
          state.multiplied.keep(*arguments.tensor(operand));
        }
        return true;
      },
      [&](const TensorView& output, const OpSpan& span) {
        event.out = output;
        event.span = span;
        event.inside_backward = inside_backward();
        event.newest_node = newest_node();
        if (std::optional<EagerRecogniser::Finished> finished = state.recogniser.on_product(event)) {
          deliver_chain(state, *std::move(finished), watching.sessions);
        }
      });
}

void SoftmaxHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = keys & kAfterBackendSelect;
  const records::Watch watching = watch();
  ThreadState* const observing = observer(observed(watching, false));
  if (observing == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  ThreadState& state = *observing;
  const ArgumentIndex& positions = index(op);
  SoftmaxEvent event;
  std::optional<ProbeSource> probe;
  observe(
      op, next, stack, positions, watching, state,
      [&](const Arguments& arguments) {
        if (!read(arguments, Arg::kInput, event.in)) {
          return false;
        }
        event.dim = axis_of(arguments, event.in);
        // Before the softmax runs, since the scores may be gone after it.
        if (watching.sampled && state.frame == nullptr && event.dim == event.in.dims - 1 && !inside_backward()) {
          probe = sample_chain(*arguments.tensor(Arg::kInput), current_layer());
        }
        return true;
      },
      [&](const TensorView& output, const OpSpan& span) {
        event.out = output;
        event.span = span;
        if (const at::Tensor* result = result_of(positions, *stack); result != nullptr && is_readable(*result)) {
          state.probabilities.keep(*result);
          if (probe) {
            state.chain_probes.keep(*result, *std::move(probe));
          }
        }
        event.inside_backward = inside_backward();
        event.label = current_layer();
        state.recogniser.on_softmax(event);
      });
}

void SoftmaxBackwardHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                     ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = keys & kAfterBackendSelect;
  const records::Watch watching = watch();
  ThreadState* const observing = observer(observed(watching, false));
  if (observing == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  ThreadState& state = *observing;
  SoftmaxBackwardEvent event;
  observe(
      op, next, stack, index(op), watching, state,
      [&event](const Arguments& arguments) {
        // "output" is what the forward saved; a schema names it as no other op does
        const std::optional<TensorView> grad = arguments.view(Arg::kGradOut);
        if (!grad || !arguments[1].isTensor() || !is_readable(arguments[1].toTensor())) {
          return false;
        }
        event.grad_out = *grad;
        event.output = view_of(arguments[1].toTensor());
        event.dim = axis_of(arguments, event.output);
        return event.output.dims >= 0;
      },
      [&](const TensorView& output, const OpSpan& span) {
        event.grad_in = output;
        event.span = span;
        std::optional<ForwardInfo> forward = forward_links().find(event.output.storage);
        if (!forward) {
          if (std::optional<EagerRecogniser::Finished> scores = state.recogniser.take_scores(event)) {
            deliver_chain(state, *std::move(scores), watching.sessions);
            forward = forward_links().find(event.output.storage);
          }
        }
        if (forward) {
          event.forward_known = true;
          event.forward_call_id = forward->call_id;
          event.forward_layer = forward->layer;
          event.forward_geometry = forward->geometry;
        }
        if (std::optional<EagerRecogniser::Finished> earlier = state.recogniser.on_softmax_backward(event)) {
          deliver_chain(state, *std::move(earlier), watching.sessions);
        }
        state.backward_of = std::move(forward);
      });
}

void ElementwiseHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = keys & kAfterBackendSelect;
  records::Watch watching = watch();
  ThreadState* const observing = observer(observed(watching, true));
  if (observing == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  ThreadState& state = *observing;
  watching.device = false;  // what it launches is the chain's glue, and has no id
  ElementwiseOperands operands;
  at::Tensor mask;  // the redispatch consumes the stack's reference
  observe(
      op, next, stack, index(op), watching, state,
      [&](const Arguments& arguments) {
        if (!read_elementwise(entry(), arguments, operands)) {
          return false;
        }
        if (operands.mask != nullptr) {
          mask = *operands.mask;
        }
        return true;
      },
      [&](const TensorView& output, const OpSpan& span) {
        operands.event.out = output;
        operands.event.span = span;
        if (state.recogniser.on_elementwise(operands.event) == ElementwiseRole::kMask && mask.defined()) {
          const MaskCounter::Result counted =
              state.masks.count(mask, operands.true_is_masked, score_geometry(operands.event.in), *sink());
          state.recogniser.set_mask(counted.state, counted.count, counted.stored_bytes);
        }
      });
}

}  // namespace headscope::capture::torch
