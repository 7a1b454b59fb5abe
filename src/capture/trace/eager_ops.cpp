#include "capture/trace/eager_ops.h"

#include <algorithm>
#include <utility>

namespace headscope::capture::trace {
namespace {

/// [n, M, N] of [n, M, K] @ [n, K, N]. A trace has no outputs.
TensorView product_of(const TensorView& a, const TensorView& b) noexcept {
  TensorView out = a;
  out.sizes[2] = b.sizes[2];
  out.strides[2] = 1;
  out.strides[1] = out.sizes[2];
  out.strides[0] = out.sizes[1] * out.sizes[2];
  return out;
}

/// The recogniser multiplies the sizes of several tensors; eager scores are tensors, so that these are far above
/// what a device holds.
bool has_usual_sizes(const TensorView& view) noexcept {
  constexpr std::int64_t kMostOfAxis = std::int64_t{1} << 22;
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
  return std::all_of(view.sizes.begin(), view.sizes.begin() + view.dims,
                     [](std::int64_t size) { return size <= kMostOfAxis; }) &&
         view.elements() <= kMostElements;
}

int axis_of(const OpArguments& arguments, const TensorView& tensor) {
  const std::int64_t dim = arguments.integer(Arg::kDim).value_or(-1);
  return dim < -tensor.dims || dim >= tensor.dims ? -1 : static_cast<int>(dim < 0 ? dim + tensor.dims : dim);
}

}  // namespace

void EagerOps::remember(const Recent& recent) noexcept { recent_[remembered_++ % kRecent] = recent; }

std::optional<EagerOps::Chain> EagerOps::feed(const records::HostOp& host_op, const TraceOp& op,
                                              const OpArguments& arguments, const Place& place) {
  const OpSpan span{host_op.start_ns, host_op.end_ns};
  Recent recent{{host_op.start_ns, host_op.end_ns}, op.entry->role, 0, place.sequence, op.causal_softmax};
  std::optional<EagerRecogniser::Finished> finished;
  switch (op.entry->role) {
    case OpRole::kProduct: {
      const auto a = arguments.tensor(Arg::kLeft);
      const auto b = arguments.tensor(Arg::kRight);
      if (!a || !b || a->dims != 3 || b->dims != 3 || !has_usual_sizes(*a) || !has_usual_sizes(*b)) {
        return std::nullopt;
      }
      const TensorView out = product_of(*a, *b);
      if (!has_usual_sizes(out)) {
        return std::nullopt;
      }
      remember(recent);
      const ProductEvent event{*a, *b, out, span, place.inside_backward};
      finished = recogniser_.on_product(event);
      break;
    }
    case OpRole::kSoftmax: {
      const auto in = arguments.tensor_at(0);
      if (!in || !has_usual_sizes(*in)) {
        return std::nullopt;
      }
      recent.elements = in->elements();
      remember(recent);
      const SoftmaxEvent event{*in, *in, axis_of(arguments, *in), span, place.inside_backward};
      recogniser_.on_softmax(event);
      break;
    }
    case OpRole::kSoftmaxBackward: {
      const auto gradient = arguments.tensor_at(0);
      if (!gradient || !has_usual_sizes(*gradient)) {
        return std::nullopt;
      }
      recent.elements = gradient->elements();
      SoftmaxBackwardEvent event{*gradient, *gradient, *gradient, axis_of(arguments, *gradient), span};
      if (place.forward != nullptr) {
        event.forward_known = true;
        event.forward_call_id = place.forward->call_id;
        event.forward_layer = place.forward->layer;
        event.forward_geometry = place.forward->geometry;
      }
      finished = recogniser_.on_softmax_backward(event);
      std::optional<Chain> earlier = finished ? std::optional(chain_of(*std::move(finished))) : std::nullopt;
      remember(recent);  // after the chain that it ends
      return earlier;
    }
    default:
      break;
  }
  return finished ? std::optional(chain_of(*std::move(finished))) : std::nullopt;
}

std::optional<EagerOps::Chain> EagerOps::flush() {
  std::optional<EagerRecogniser::Finished> finished = recogniser_.flush();
  return finished ? std::optional(chain_of(*std::move(finished))) : std::nullopt;
}

EagerOps::Chain EagerOps::chain_of(EagerRecogniser::Finished&& finished) const {
  Chain chain;
  chain.call = std::move(finished.call);
  const records::AttentionCall& call = chain.call;
  const records::HostSpan whole{call.start_ns, call.end_ns};
  const bool backward = call.direction == Direction::kBackward;
  const records::Geometry& geometry = call.geometry;
  const auto unsigned_of = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
  const std::uint64_t rows = unsigned_of(geometry.batch) * unsigned_of(geometry.heads) * unsigned_of(geometry.q_len);
  std::int64_t time_ns = 0;
  for (std::size_t back = std::min(remembered_, kRecent); back > 0; --back) {
    const Recent& recent = recent_[(remembered_ - back) % kRecent];
    const bool inside = recent.span.start_ns >= whole.start_ns && recent.span.end_ns <= whole.end_ns;
    const bool edge = recent.span.start_ns == whole.start_ns || recent.span.end_ns == whole.end_ns;
    const bool is_product = recent.role == OpRole::kProduct;
    // One more column is that of a sink.
    const std::uint64_t scores = rows * unsigned_of(geometry.kv_len);
    const bool is_softmax =
        !is_product && (unsigned_of(recent.elements) == scores || unsigned_of(recent.elements) == scores + rows);
    // A forward has the products at its ends, a backward all of those within.
    if (inside && (is_softmax || (is_product && (backward || edge)))) {
      chain.ops.push_back(recent.span);
      time_ns += recent.span.end_ns - recent.span.start_ns;
      if (is_softmax && !backward) {
        chain.sequence = recent.sequence;
        chain.causal = recent.causal;
      }
    }
  }
  if (chain.ops.empty() ||
      time_ns != call.time_ns) {  // other products took part, or two chains are woven into each other
    chain.ops = {whole};
  }
  return chain;
}

}  // namespace headscope::capture::trace
