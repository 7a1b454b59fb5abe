#include <algorithm>
#include <utility>

#include "capture/eager_recogniser.h"
#include "capture/operand.h"

namespace headscope::capture {

namespace {

/// dQ[batch, rows, head_dim] = dS[batch, rows, columns] @ K.
bool is_query_gradient(const ProductShape& shape, const ProductShape& scores, std::int64_t head_dim) noexcept {
  return shape.batch == scores.batch && shape.rows == scores.rows && shape.inner == scores.columns &&
         (head_dim == 0 || shape.columns == head_dim);
}

/// dKᵀ[batch, head_dim, columns] = Qᵀ @ dS[batch, rows, columns], as the gradient of a product has it.
bool is_key_gradient(const ProductShape& shape, const ProductShape& scores, std::int64_t head_dim) noexcept {
  return shape.batch == scores.batch && shape.inner == scores.rows && shape.columns == scores.columns &&
         (head_dim == 0 || shape.rows == head_dim);
}

/// dK[batch, columns, head_dim] = dSᵀ[batch, columns, rows] @ Q, as hand-written backwards have it.
bool is_key_gradient_of_transposed(const ProductShape& shape, const ProductShape& scores,
                                   std::int64_t head_dim) noexcept {
  return shape.batch == scores.batch && shape.rows == scores.columns && shape.inner == scores.rows &&
         (head_dim == 0 || shape.columns == head_dim);
}

/// Elements of an operand that no product showed.
void fill(records::Operand& operand, std::int64_t elements, std::uint32_t element_size) noexcept {
  if (operand.element_size == 0 && elements > 0) {
    operand = {static_cast<std::uint64_t>(elements), element_size};
  }
}

}  // namespace

std::optional<EagerRecogniser::Finished> EagerRecogniser::on_softmax_backward(
    const SoftmaxBackwardEvent& event) noexcept {
  std::optional<Finished> finished;
  if (backward_.open) {
    finished = finish_backward();
  }
  const TensorView& gradient = event.grad_out;
  ++epoch_;
  ++sequence_;
  for (EagerProduct& product : products_) {
    product.by_storage_only = product.by_storage_only || !product.inside_backward;  // its forward pass is over
  }
  if (gradient.dims < 2 || event.grad_in.dims != gradient.dims || event.dim != gradient.dims - 1 ||
      gradient.elements() <= 0) {
    return finished;
  }
  ScoreLayout layout;
  EagerProduct* probability_gradient = find_scores(gradient, true, false, layout);
  const bool shaped = gradient.dims >= 3 && event.forward_known;
  if (probability_gradient != nullptr || shaped) {
    open_backward(event, probability_gradient, layout);
  }
  return finished;
}

void EagerRecogniser::open_backward(const SoftmaxBackwardEvent& event, EagerProduct* probability_gradient,
                                    const ScoreLayout& layout) noexcept {
  const TensorView& gradient = event.grad_out;
  backward_ = {};
  backward_.open = true;
  backward_.detail = detail_;
  backward_.forward_known = event.forward_known;
  backward_.forward_call_id = event.forward_call_id;
  backward_.layer = event.forward_layer;
  backward_.forward_geometry = event.forward_geometry;
  backward_.probabilities = event.output.storage;
  backward_.dtype = gradient.dtype;
  backward_.device = gradient.device;
  backward_.element_size = gradient.element_size;
  if (event.forward_known) {
    backward_.head_dim = event.forward_geometry.head_dim;
  }
  for (const ExtraOperands& extra : extra_forwards_) {
    if (extra.products > 0 && extra.probabilities == event.output.storage) {
      backward_.extra = extra;
      backward_.extra_left = 2 * extra.products;
    }
  }

  EagerWork& work = backward_.work;
  bool unlinked = false;
  if (probability_gradient != nullptr) {
    EagerProduct& product = *probability_gradient;
    backward_.layout = layout;
    backward_.scores = product.shape;
    backward_.head_dim_v = product.shape.inner;
    backward_.dtype = product.dtype;
    backward_.product_flops += product.shape.flops();
    // O has an element for each query and value dim, also where dO is a broadcast gradient.
    fill(backward_.out, product.shape.batch * product.shape.rows * product.shape.inner, product.left.element_size);
    backward_.v = operand_of(product.right);
    unlinked = gradient.storage != product.work.latest;
    work = std::move(product.work);
    product.open = false;
    take_value_gradient(product, event.output.storage);
    if (unlinked) {
      work.traffic_bytes += product.out_bytes + gradient.bytes();
      work.score_bytes += gradient.bytes();
    }
  } else {
    const records::Geometry& forward = event.forward_geometry;
    const std::int64_t rows = gradient.elements() / gradient.size(-1);
    const std::int64_t q_len = gradient.size(-2);
    backward_.layout = {forward.batch, forward.heads, forward.kv_heads, q_len, 1};
    backward_.scores = {rows / q_len, q_len, 0, forward.kv_len};
    backward_.head_dim_v = forward.head_dim_v;
    work.begin(event.span);
    work.glue_ns = detail_ ? 0 : -1;
    unlinked = true;
  }
  work.linked = work.linked && !unlinked;
  work.add_op(event.span, gradient.bytes() + event.output.bytes());
  work.traffic_bytes += gradient.bytes() + event.output.bytes() + event.grad_in.bytes();
  if (event.grad_in.storage != gradient.storage) {
    work.score_bytes += event.grad_in.bytes();
  }
  work.move_to(event.grad_in);
}

void EagerRecogniser::take_value_gradient(const EagerProduct& probability_gradient, StorageId probabilities) noexcept {
  // dV[batch, columns, head_dim_v] = Pᵀ @ dO. Autograd hands one dO to both products of PV's backward.
  const ProductShape& scores = probability_gradient.shape;
  const ProductShape wanted{scores.batch, scores.columns, scores.rows, scores.inner};
  EagerProduct* found = nullptr;
  for (EagerProduct& product : products_) {
    const bool shares = (product.b != 0 && product.b == probability_gradient.a) || product.a == probabilities;
    if (product.open && shares && product.shape == wanted && (found == nullptr || product.sequence > found->sequence)) {
      found = &product;
    }
  }
  if (found == nullptr) {
    return;
  }
  found->open = false;
  backward_.gradients.v = true;
  backward_.product_flops += found->shape.flops();
  // It writes dV, which is no score, and reads P.
  const auto probability_bytes =
      static_cast<std::uint64_t>(scores.out_elements()) * probability_gradient.right.element_size;
  found->work.traffic_bytes = probability_bytes;
  found->work.score_bytes = 0;
  if (found->work.peak_bytes >= 0) {
    found->work.peak_bytes += static_cast<std::int64_t>(probability_bytes);
  }
  backward_.work.absorb(found->work);
}

bool EagerRecogniser::join_backward(const ProductEvent& event, const ProductShape& shape) noexcept {
  return join_query_gradient(event, shape) || join_key_gradient(event, shape) || join_extra_gradient(event, shape);
}

bool EagerRecogniser::join_query_gradient(const ProductEvent& event, const ProductShape& shape) noexcept {
  EagerBackward& open = backward_;
  if (open.gradients.q || !is_query_gradient(shape, open.scores, open.head_dim)) {
    return false;
  }
  const StorageId gradient = event.a.storage;
  const bool same = gradient != 0 && (gradient == open.work.latest || gradient == open.score_gradient);
  // dQ and dK come of one dS. Before either was seen, a dense operand of the scores' shape is taken for it.
  if (!same && (open.score_gradient != 0 || is_transposed(event.a))) {
    return false;
  }
  open.proven = open.proven || gradient == open.work.latest;
  open.work.linked = open.work.linked && gradient == open.work.latest;
  open.gradients.q = true;
  open.score_gradient = gradient;
  open.head_dim = shape.columns;
  open.k = operand_of(event.b);
  open.product_flops += shape.flops();
  open.work.add_op(event.span, event.a.bytes());
  open.work.traffic_bytes += event.a.bytes();
  return true;
}

bool EagerRecogniser::join_key_gradient(const ProductEvent& event, const ProductShape& shape) noexcept {
  EagerBackward& open = backward_;
  if (open.gradients.k) {
    return false;
  }
  const auto is_gradient = [&open](const TensorView& operand) {
    return operand.storage != 0 && (operand.storage == open.work.latest || operand.storage == open.score_gradient);
  };
  // Where the head dim equals a length, only the transposed view tells Qᵀ from dS and from the next layer's dO.
  const bool unlike = shape.rows != open.scores.rows && shape.rows != open.scores.columns;
  const bool is_query = unlike || is_transposed(event.a);
  const bool plain = is_key_gradient(shape, open.scores, open.head_dim) &&
                     (is_gradient(event.b) || (open.score_gradient == 0 && is_query && !is_transposed(event.b)));
  // Pᵀ @ dO of the next layer has the shape of dSᵀ @ Q, so here only the storage proves it.
  const bool swapped =
      !plain && is_key_gradient_of_transposed(shape, open.scores, open.head_dim) && is_gradient(event.a);
  if (!plain && !swapped) {
    return false;
  }
  const TensorView& gradient = plain ? event.b : event.a;
  open.proven = open.proven || gradient.storage == open.work.latest;
  open.work.linked = open.work.linked && gradient.storage == open.work.latest;
  open.gradients.k = true;
  open.score_gradient = gradient.storage;
  open.head_dim = plain ? shape.rows : shape.columns;
  open.q = operand_of(plain ? event.a : event.b);
  open.product_flops += shape.flops();
  open.work.add_op(event.span, gradient.bytes());
  open.work.traffic_bytes += gradient.bytes();
  return true;
}

bool EagerRecogniser::join_extra_gradient(const ProductEvent& event, const ProductShape& shape) noexcept {
  EagerBackward& open = backward_;
  if (open.extra_left == 0 || (!open.extra.has(event.a.storage) && !open.extra.has(event.b.storage))) {
    return false;
  }
  --open.extra_left;
  open.extra_flops += shape.flops();
  open.work.add_op(event.span, 0);
  return true;
}

bool EagerRecogniser::backward_complete() const noexcept {
  return backward_.gradients.q && backward_.gradients.k && backward_.extra_left == 0;
}

std::optional<EagerRecogniser::Finished> EagerRecogniser::finish_backward() noexcept {
  EagerBackward& open = backward_;
  open.open = false;
  // softmax(q) @ s of a linear attention has dP and a softmax backward too; its next product may fit by chance.
  const bool both = open.gradients.q && open.gradients.k;
  if (!open.forward_known && !both && !open.proven) {
    return std::nullopt;
  }
  std::optional<Finished> finished(std::in_place);
  finished->probabilities = open.probabilities;
  records::AttentionCall& call = finished->call;
  call.direction = Direction::kBackward;
  call.forward_call_id = open.forward_call_id;
  call.layer = open.layer;
  call.device = open.device;
  call.dtype = open.dtype;
  call.geometry = open.forward_known ? open.forward_geometry
                                     : records::Geometry{open.layout.batch, open.layout.heads,   open.layout.kv_heads,
                                                         open.layout.q_len, open.scores.columns, open.head_dim,
                                                         open.head_dim_v};
  const records::Geometry& g = call.geometry;
  fill(open.q, g.batch * g.heads * g.q_len * g.head_dim, open.element_size);
  fill(open.k, g.batch * g.kv_heads * g.kv_len * g.head_dim, open.element_size);
  fill(open.v, g.batch * g.kv_heads * g.kv_len * g.head_dim_v, open.element_size);
  fill(open.out, g.batch * g.heads * g.q_len * g.head_dim_v, open.element_size);
  call.q = open.q;
  call.k = open.k;
  call.v = open.v;
  call.out = open.out;
  call.mask = records::MaskState::kUnseen;
  call.gradients = open.gradients;
  call.product_flops = open.product_flops;
  call.extra_product_flops = open.extra_flops;
  const EagerWork& work = open.work;
  call.materialized = {work.traffic_bytes, 0, 0, open.detail && work.linked && work.complete};
  call.start_ns = work.start_ns;
  call.end_ns = work.end_ns;
  call.time_ns = work.time_ns;
  call.glue_ns = work.glue_ns;
  call.device_ops = work.device_ops;
  call.allocated_bytes = work.allocated_bytes;
  call.peak_bytes = work.peak_bytes;
  call.score_bytes = static_cast<std::int64_t>(work.score_bytes);
  return finished;
}

}  // namespace headscope::capture
