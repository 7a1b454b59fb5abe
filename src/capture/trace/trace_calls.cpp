#include "capture/trace/trace_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "capture/trace/eager_ops.h"
#include "capture/trace/fused_op.h"
#include "capture/trace/module_layers.h"
#include "capture/trace/op_arguments.h"
#include "capture/trace/open_ops.h"
#include "capture/trace/repeated_forwards.h"
#include "capture/trace/sequence_links.h"
#include "capture/trace/trace_ops.h"

namespace headscope::capture::trace {
namespace {

const records::OpInfo kEagerOp{"bmm+softmax+bmm", "eager", records::Kernel::kEager, true};

/// The device of the trace's kernels; of two or more, none in particular. Without any, the host.
records::Device device_of(const records::TraceRecording& recording) {
  const std::vector<records::DeviceSpan>& spans = recording.device_activity.spans;
  if (spans.empty()) {
    return {};
  }
  records::Device device = spans.front().device;
  for (const records::DeviceSpan& span : spans) {
    device.index = span.device.index == device.index ? device.index : std::int8_t{-1};
  }
  return device;
}

/// What all threads share.
struct Shared {
  const records::TraceRecording& recording;
  records::Device device;
  std::vector<const TraceOp*> known;  // by name
  ModuleLayers layers;
  SequenceLinks links;
  RepeatedForwards repeated;
  TraceCalls result;
};

/// The calls of one thread, from its ops in order.
class ThreadWalk {
 public:
  ThreadWalk(Shared& shared, std::uint32_t thread) : shared_(shared), thread_(thread) {}

  void run() {
    const records::TraceThread& thread = shared_.recording.threads[thread_];
    const auto close = [this](const OpenOps::Open& open) { on_close(open); };
    for (const records::HostOp& op : shared_.recording.ops_of(thread)) {
      open_.close_before(op, close);
      const TraceOp* const known = shared_.known[op.name];
      if (is_eager(known)) {
        on_eager(op, *known);
      } else if (is_attention(known)) {
        open_.mark_attention();
      }
      open_.open(op, known);
    }
    open_.close_all(close);
    if (std::optional<EagerOps::Chain> chain = eager_.flush()) {
      add_chain(*std::move(chain));
    }
    shared_.result.unfinished_chains += eager_.unfinished();
  }

 private:
  [[nodiscard]] OpArguments arguments_of(const records::HostOp& host_op, const TraceOp& op) const {
    return {shared_.recording, host_op, op, shared_.device};
  }

  void on_eager(const records::HostOp& op, const TraceOp& known) {
    const std::size_t around = open_.innermost_attention();
    const bool inside_fused = around != OpenOps::kNone && open_[around].known->entry->role != OpRole::kComposite &&
                              open_[around].known->entry->role != OpRole::kNativeMha;
    if (inside_fused || open_.inside_eager()) {
      return;
    }
    const records::HostOp* const node = open_.backward_node();
    EagerOps::Place place;
    place.sequence = op.sequence >= 0 ? op.sequence : open_.sequence();
    place.inside_backward = node != nullptr;
    if (known.entry->role == OpRole::kSoftmaxBackward && node != nullptr) {
      records::AttentionCall backward;  // its geometry comes from the forward
      backward.start_ns = op.start_ns;
      if (const auto forward = shared_.links.take(node->sequence, node->forward_thread, backward, calls())) {
        place.forward = &calls()[*forward].call;
      }
    }
    if (std::optional<EagerOps::Chain> chain = eager_.feed(op, known, arguments_of(op, known), place)) {
      add_chain(*std::move(chain));
    }
  }

  void on_close(const OpenOps::Open& open) {
    if (!is_attention(open.known) || open.holds_attention) {
      return;
    }
    const OpArguments arguments = arguments_of(*open.op, *open.known);
    std::optional<records::AttentionCall> call = read_fused_op(*open.known, arguments);
    if (!call) {
      call = call_without_shapes(*open.known, shared_.device);
      ++shared_.result.without_shapes;
    }
    const records::HostOp& outermost = open_.outermost(open);
    call->start_ns = outermost.start_ns;
    call->end_ns = outermost.end_ns;
    call->time_ns = call->end_ns - call->start_ns;
    std::vector<records::HostSpan> ops{{outermost.start_ns, outermost.end_ns}};
    if (call->direction == Direction::kBackward) {
      add_backward(*std::move(call), std::move(ops));
    } else {
      add_forward(*std::move(call), std::move(ops), open_.sequence());
    }
  }

  void add_chain(EagerOps::Chain&& chain) {
    records::AttentionCall& call = chain.call;
    call.op = &kEagerOp;
    if (call.direction == Direction::kBackward) {
      if (call.forward_call_id == 0) {
        forget_layer(call);
      } else {
        const std::size_t forward = call.forward_call_id - 1;
        take_arguments(call, calls()[forward].call);
        link_to(call, forward);
      }
      keep(std::move(call), std::move(chain.ops));
      return;
    }
    if (chain.causal) {
      call.causal = records::Causal::kUpperLeft;
    }
    take_composite(call);
    add_forward(std::move(call), std::move(chain.ops), chain.sequence);
  }

  /// A chain inside of scaled_dot_product_attention is that op's, whose arguments tell heads, causality and mask.
  void take_composite(records::AttentionCall& call) {
    const std::size_t around = open_.innermost_attention();
    if (around == OpenOps::kNone || open_[around].op->start_ns > call.start_ns ||
        call.direction == Direction::kBackward) {
      return;
    }
    const OpenOps::Open& composite = open_[around];
    open_.mark_attention();
    if (const auto told = read_fused_op(*composite.known, arguments_of(*composite.op, *composite.known))) {
      take_arguments(call, *told);
      // As the op was given them: inside, K and V may be repeated for grouped heads.
      call.q = told->q;
      call.k = told->k;
      call.v = told->v;
    } else {
      call.op = &composite.known->entry->info;
    }
  }

  /// What the products alone do not tell: of a chain from the op around it, of its backward from the chain.
  static void take_arguments(records::AttentionCall& call, const records::AttentionCall& from) {
    call.op = from.op;
    call.geometry = from.geometry;
    call.causal = from.causal;
    call.has_dropout = from.has_dropout;
    call.mask = from.mask;
    call.mask_bytes = from.mask_bytes;
  }

  void add_forward(records::AttentionCall&& call, std::vector<records::HostSpan>&& ops, std::int64_t sequence) {
    const std::size_t at = calls().size();
    call.inside_backward = open_.backward_node() != nullptr;
    call.layer = {shared_.layers.label(thread_, call.start_ns, call.end_ns), thread_, 0};
    const auto repeated = call.inside_backward ? shared_.repeated.take(call) : std::nullopt;
    if (repeated) {
      call.direction = Direction::kRecompute;
      call.forward_call_id = calls()[*repeated].call.call_id;
      call.layer = calls()[*repeated].call.layer;
    } else if (call.layer.label == 0) {
      call.layer.order = unnamed_++;
    }
    if (!call.inside_backward) {
      shared_.repeated.open(call, at);
    }
    shared_.links.add_forward(sequence, at, thread_);
    keep(std::move(call), std::move(ops));
  }

  void add_backward(records::AttentionCall&& call, std::vector<records::HostSpan>&& ops) {
    const records::HostOp* const node = open_.backward_node();
    forget_layer(call);
    if (node != nullptr) {
      if (const auto forward = shared_.links.take(node->sequence, node->forward_thread, call, calls())) {
        link_to(call, *forward);
      }
    }
    keep(std::move(call), std::move(ops));
  }

  void forget_layer(records::AttentionCall& call) const { call.layer = {0, thread_, records::LayerRef::kUnknownOrder}; }

  void link_to(records::AttentionCall& backward, std::size_t at) {
    const records::AttentionCall& forward = calls()[at].call;
    const bool repeats = forward.direction == Direction::kRecompute && forward.forward_call_id != 0;
    backward.forward_call_id = repeats ? forward.forward_call_id : forward.call_id;
    backward.layer = forward.layer;
    shared_.repeated.close(forward, at);
  }

  void keep(records::AttentionCall&& call, std::vector<records::HostSpan>&& ops) {
    call.call_id = calls().size() + 1;
    const records::HostSpan whole{call.start_ns, call.end_ns};
    calls().push_back({std::move(call), thread_, std::move(ops), whole});
  }

  std::vector<TraceCall>& calls() { return shared_.result.calls; }

  Shared& shared_;
  std::uint32_t thread_;
  OpenOps open_;
  EagerOps eager_;
  std::uint64_t unnamed_ = 0;
};

/// Threads in an order in which forwards come before their backwards: first those that run no autograd node.
std::vector<std::uint32_t> threads_in_order(const records::TraceRecording& recording) {
  std::vector<std::uint32_t> order;
  for (const bool with_nodes : {false, true}) {
    for (std::uint32_t thread = 0; thread < recording.threads.size(); ++thread) {
      const auto ops = recording.ops_of(recording.threads[thread]);
      if (with_nodes ==
          std::any_of(ops.begin(), ops.end(), [](const records::HostOp& op) { return op.forward_thread != 0; })) {
        order.push_back(thread);
      }
    }
  }
  return order;
}

}  // namespace

bool wants_inputs(std::string_view name) { return trace_op(name) != nullptr; }

TraceCalls calls_of(const records::TraceRecording& recording) {
  Shared shared{recording, device_of(recording), {}, ModuleLayers(recording), {}, {}, {}};
  for (std::uint32_t name = 0; name < recording.names.size(); ++name) {
    shared.known.push_back(trace_op(recording.names[name]));
  }
  for (const std::uint32_t thread : threads_in_order(recording)) {
    ThreadWalk(shared, thread).run();
  }
  return std::move(shared.result);
}

}  // namespace headscope::capture::trace
