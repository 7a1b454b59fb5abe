#include <algorithm>
#include <utility>

#include "capture/eager_recogniser.h"
#include "capture/operand.h"

namespace headscope::capture {

std::optional<EagerRecogniser::Finished> EagerRecogniser::on_product(const ProductEvent& event) noexcept {
  const auto shape = product_shape(event.a, event.b, event.out);
  if (!shape) {
    return std::nullopt;
  }
  ++sequence_;
  const bool chains = open_chains_ > 0;
  if (EagerChain* chain = chains ? chain_by_storage(event, *shape) : nullptr) {
    return finish_forward(*chain, event, *shape);
  }
  if (backward_.open && join_backward(event, *shape)) {
    return backward_complete() ? finish_backward() : std::nullopt;
  }
  if (EagerChain* chain = chains ? chain_by_shape(event, *shape) : nullptr) {
    return finish_forward(*chain, event, *shape);
  }
  remember(event, *shape);
  return std::nullopt;
}

void EagerRecogniser::remember(const ProductEvent& event, const ProductShape& shape) noexcept {
  for (EagerProduct& earlier : products_) {
    if (earlier.work.latest == event.out.storage) {
      earlier.work.latest = 0;  // that tensor is gone: its address has come back
    }
  }
  EagerProduct& product = products_[next_product_];
  next_product_ = (next_product_ + 1) % kProducts;
  if (masked_ == &product) {
    masked_ = nullptr;
  }
  product.open = true;
  product.by_storage_only = false;
  product.sequence = sequence_;
  product.epoch = epoch_;
  product.shape = shape;
  product.a = event.a.storage;
  product.b = event.b.storage;
  product.out = event.out.storage;
  product.left = event.a;
  product.right = event.b;
  product.out_bytes = event.out.bytes();
  product.dtype = event.a.dtype;
  product.device = event.a.device;
  product.inside_backward = event.inside_backward;
  product.newest_node = event.newest_node;
  product.work = {};
  EagerWork& work = product.work;
  work.begin(event.span);
  work.add_op(event.span, 0);
  work.move_to(event.out);
  work.traffic_bytes = product.out_bytes;
  work.score_bytes = product.out_bytes;
  work.glue_ns = detail_ ? 0 : -1;
  work.mask = detail_ ? records::MaskState::kNone : records::MaskState::kUnseen;
  work.linked = detail_;
  if (detail_) {
    work.add_kv_copy(copies_.take(event.b, CopyRing::kKeyValueSteps));
  }
}

EagerProduct* EagerRecogniser::find_scores(const TensorView& scores, bool inside_backward, bool with_siblings,
                                           ScoreLayout& layout) noexcept {
  EagerProduct* best = nullptr;
  const std::int64_t columns = scores.size(-1);
  const std::int64_t elements = scores.elements();
  for (EagerProduct& product : products_) {
    // An outer product (rotary angles) makes no scores. The count of elements is the quick test.
    if (!product.open || product.shape.inner == 1 || product.shape.batch * product.shape.rows * columns != elements) {
      continue;
    }
    if (product.inside_backward != inside_backward) {
      continue;
    }
    const bool same = scores.storage != 0 && scores.storage == product.work.latest;
    if (!same && product.by_storage_only) {
      continue;
    }
    const auto found = score_layout(product.shape, scores, scores.storage != 0 && scores.storage == product.out);
    if (!found) {
      continue;
    }
    if (same) {
      layout = *found;
      return &product;
    }
    if (best == nullptr || product.sequence > best->sequence) {
      best = &product;
      layout = *found;
    }
  }
  if (best == nullptr || !with_siblings) {
    return best;
  }
  // Products of one shape with no softmax between them: the first is QKᵀ, the others are position scores,
  // or belong to another attention whose softmax follows.
  for (EagerProduct& product : products_) {
    if (product.open && !product.by_storage_only && product.epoch == best->epoch && product.shape == best->shape &&
        product.sequence < best->sequence) {
      best = &product;
    }
  }
  return best;
}

EagerChain& EagerRecogniser::free_chain() noexcept {
  EagerChain* oldest = &chains_[0];
  for (EagerChain& chain : chains_) {
    if (!chain.open) {
      return chain;
    }
    if (chain.softmax_sequence < oldest->softmax_sequence) {
      oldest = &chain;
    }
  }
  ++unfinished_;
  --open_chains_;
  return *oldest;
}

void EagerRecogniser::on_softmax(const SoftmaxEvent& event) noexcept {
  const TensorView& in = event.in;
  if (in.dims < 2 || event.out.dims != in.dims || event.dim != in.dims - 1 || in.elements() <= 0) {
    return;
  }
  ++sequence_;
  ScoreLayout layout;
  EagerProduct* product = find_scores(in, event.inside_backward, true, layout);
  ++epoch_;
  if (product == nullptr) {
    return;
  }
  for (EagerChain& earlier : chains_) {
    if (earlier.probabilities == event.out.storage) {
      earlier.probabilities = 0;  // those probabilities are gone: their address has come back
      earlier.work().latest = 0;
    }
  }
  EagerChain& chain = free_chain();
  chain.product = std::move(*product);
  product->open = false;
  if (masked_ == product) {
    masked_ = nullptr;
  }
  chain.open = true;
  ++open_chains_;
  chain.softmax_sequence = sequence_;
  chain.layout = layout;
  chain.probabilities = event.out.storage;
  chain.label = event.label;

  EagerWork& work = chain.work();
  work.add_op(event.span, in.bytes());
  work.traffic_bytes += in.bytes() + event.out.bytes();
  if (in.storage != work.latest) {
    work.linked = false;
    work.traffic_bytes += chain.product.out_bytes + in.bytes();
    work.score_bytes += in.bytes();
  }
  if (event.out.storage != in.storage) {
    work.score_bytes += event.out.bytes();
  }
  work.move_to(event.out);
}

EagerChain* EagerRecogniser::chain_by_storage(const ProductEvent& event, const ProductShape& shape) noexcept {
  if (event.inside_backward && is_transposed(event.a)) {
    return nullptr;  // dV = Pᵀ dO of a chain whose recompute stopped before its second product
  }
  for (EagerChain& chain : chains_) {
    const StorageId a = event.a.storage;
    if (chain.open && a != 0 && (a == chain.work().latest || a == chain.probabilities) &&
        takes_probabilities(shape, chain.product.shape, chain.layout)) {
      return &chain;
    }
  }
  return nullptr;
}

EagerChain* EagerRecogniser::chain_by_shape(const ProductEvent& event, const ProductShape& shape) noexcept {
  // Pᵀ or dO·Vᵀ of a backward; a copy of P is dense.
  if (is_transposed(event.a) || (event.inside_backward && is_transposed(event.b))) {
    return nullptr;
  }
  EagerChain* best = nullptr;
  for (EagerChain& chain : chains_) {
    if (chain.open && takes_probabilities(shape, chain.product.shape, chain.layout) &&
        (best == nullptr || chain.softmax_sequence > best->softmax_sequence)) {
      best = &chain;
    }
  }
  return best;
}

std::optional<EagerRecogniser::Finished> EagerRecogniser::take_scores(const SoftmaxBackwardEvent& event) noexcept {
  const StorageId probabilities = event.output.storage;
  for (EagerChain& chain : chains_) {
    if (!chain.open || !chain.product.inside_backward || probabilities == 0 || chain.probabilities != probabilities) {
      continue;
    }
    // dP = dO Vᵀ, which ran before, tells the head dim of V.
    ScoreLayout layout;
    const EagerProduct* gradient =
        event.grad_out.dims >= 2 ? find_scores(event.grad_out, true, false, layout) : nullptr;
    return finish_scores(chain, gradient != nullptr ? gradient->shape.inner : chain.product.shape.inner);
  }
  return std::nullopt;
}

std::optional<EagerRecogniser::Finished> EagerRecogniser::take_scores_since(std::int64_t start_ns) noexcept {
  for (EagerChain& chain : chains_) {
    if (chain.open && chain.product.inside_backward && chain.work().start_ns >= start_ns) {
      return finish_scores(chain, chain.product.shape.inner);
    }
  }
  return std::nullopt;
}

std::uint64_t EagerRecogniser::absorb_extra_products(EagerChain& chain) noexcept {
  const EagerProduct& main = chain.product;
  ExtraOperands operands;
  operands.probabilities = chain.probabilities;
  operands.add(main.a);
  operands.add(main.b);
  std::uint64_t flops = 0;
  for (EagerProduct& product : products_) {
    const bool between = product.sequence > main.sequence && product.sequence < chain.softmax_sequence;
    const bool before = product.sequence < main.sequence && product.epoch == main.epoch;
    if (!product.open || product.by_storage_only || !(between || before) || product.shape.inner == 1) {
      continue;
    }
    const ProductShape& shape = product.shape;
    // Position scores that were made first. Of the same shape they would be another attention's QKᵀ.
    if (before && (shape.rows != main.shape.rows || shape.columns == main.shape.columns)) {
      continue;
    }
    const auto shared = [&main](StorageId storage) { return storage != 0 && (storage == main.a || storage == main.b); };
    const bool alike = shape.batch == main.shape.batch && shape.inner == main.shape.inner &&
                       (shape.rows == main.shape.rows || shape.rows == main.shape.columns);
    if (!alike && !shared(product.a) && !shared(product.b)) {
      continue;
    }
    product.by_storage_only = true;
    flops += shape.flops();
    if (shape.out_elements() != main.shape.out_elements()) {
      product.work.score_bytes -= std::min(product.work.score_bytes, product.out_bytes);
    }
    chain.work().absorb(product.work);
    operands.add(product.a);
    operands.add(product.b);
    ++operands.products;
  }
  if (operands.products > 0) {
    extra_forwards_[next_extra_] = operands;
    next_extra_ = (next_extra_ + 1) % kExtraForwards;
  }
  return flops;
}

std::optional<EagerRecogniser::Finished> EagerRecogniser::finish_forward(EagerChain& chain, const ProductEvent& values,
                                                                         const ProductShape& shape) noexcept {
  EagerWork& work = chain.work();
  // In basic mode `linked` is false from the start, so that only detail can be exact.
  const bool linked = work.linked && values.a.storage == work.latest;
  const bool detail = work.glue_ns >= 0;
  const std::uint64_t extra_flops = absorb_extra_products(chain);
  const bool exact = linked && work.complete;
  work.add_op(values.span, values.a.bytes());
  work.traffic_bytes += values.a.bytes();
  if (detail) {
    work.add_kv_copy(copies_.take(values.b, CopyRing::kKeyValueSteps));
  }
  const TensorView keys = transposed(chain.product.right);
  const TensorView queries = chain.product.left;

  std::optional<Finished> finished = finish_scores(chain, shape.columns);
  records::AttentionCall& call = finished->call;
  call.scores_only = false;
  call.extra_product_flops = extra_flops;
  call.materialized.exact = exact;
  call.v = operand_of(values.b);
  call.out = operand_of(values.out);
  call.kv_overlap_bytes = overlap_bytes(keys, values.b);
  call.q_overlap_bytes = query_overlap_bytes(queries, keys, values.b);
  return finished;
}

EagerRecogniser::Finished EagerRecogniser::finish_scores(EagerChain& chain, std::int64_t head_dim_v) noexcept {
  Finished finished;
  finished.probabilities = chain.probabilities;
  finished.first_node = chain.product.newest_node;
  records::AttentionCall& call = finished.call;
  EagerProduct& scores = chain.product;
  EagerWork& work = chain.work();
  call.scores_only = true;
  call.layer.label = chain.label;
  call.direction = Direction::kForward;
  call.inside_backward = scores.inside_backward;
  call.device = scores.device;
  call.dtype = scores.dtype;
  call.geometry = {chain.layout.batch, chain.layout.heads,   chain.layout.kv_heads,
                   chain.layout.q_len, scores.shape.columns, scores.shape.inner,
                   head_dim_v};
  call.q = operand_of(scores.left);
  call.k = operand_of(scores.right);
  if (work.mask_unanswered) {
    work.mask = records::MaskState::kOpaque;
    work.mask_count.reset();
  }
  call.mask = work.mask == records::MaskState::kNone && !work.linked ? records::MaskState::kUnseen : work.mask;
  call.mask_count = std::move(work.mask_count);
  call.mask_bytes = work.mask_bytes;
  call.materialized = {work.traffic_bytes, work.kv_copy_bytes, work.mask_copy_bytes, work.linked && work.complete};
  call.start_ns = work.start_ns;
  call.end_ns = work.end_ns;
  call.time_ns = work.time_ns;
  call.glue_ns = work.glue_ns;
  call.device_ops = work.device_ops;
  call.allocated_bytes = work.allocated_bytes;
  call.peak_bytes = work.peak_bytes;
  call.score_bytes = static_cast<std::int64_t>(work.score_bytes);
  chain.open = false;
  --open_chains_;
  return finished;
}

}  // namespace headscope::capture
