#include "capture/eager_recogniser.h"

#include <algorithm>
#include <utility>

namespace headscope::capture {

namespace {

using Kind = ElementwiseEvent::Kind;

bool names_a_mask(Kind kind) noexcept {
  return kind == Kind::kAdd || kind == Kind::kMaskedFill || kind == Kind::kWhere;
}

bool in_place(const ElementwiseEvent& event) noexcept { return event.in.storage == event.out.storage; }

/// Bytes of K or V that the op copies, should a product take its output: copies of the same elements, also
/// repeated along another axis than the sequence, and upcasts. Growing a cache is no copy.
std::uint64_t copied_bytes(const ElementwiseEvent& event) noexcept {
  const TensorView& in = event.in;
  const TensorView& out = event.out;
  if (event.kind == Kind::kArithmetic) {
    return in.element_size < out.element_size && in.elements() == out.elements() ? out.bytes() : 0;
  }
  if (event.kind != Kind::kCopy) {
    return 0;
  }
  const std::int64_t from = in.elements();
  const bool repeats = from > 0 && in.dims == out.dims && in.dims >= 3 && in.size(-1) == out.size(-1) &&
                       in.size(-2) == out.size(-2) && out.elements() % from == 0;
  return from == out.elements() || repeats ? out.bytes() : 0;
}

/// A floating-point tensor of the mask's elements: −inf where a bool mask says so.
bool builds_mask(const ElementwiseEvent& event) noexcept {
  return (event.kind == Kind::kWhere || event.kind == Kind::kMaskedFill) && event.out.dims >= 2 &&
         event.other.dims >= 2 && event.other.element_size == 1 && event.out.element_size > 1 &&
         event.other.elements() == event.out.elements();
}

bool expands_heads(const ElementwiseEvent& event) noexcept {
  if (event.kind != Kind::kCopy || event.in.dims < 4 || event.in.elements() != event.out.elements()) {
    return false;
  }
  for (int axis = 1; axis < event.in.dims - 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (event.in.sizes[at] > 1 && event.in.strides[at] == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool EagerRecogniser::book(EagerWork& work, const ElementwiseEvent& event, bool other_is_scores) noexcept {
  const TensorView& in = event.in;
  const TensorView& out = event.out;
  const bool masks =
      names_a_mask(event.kind) && !other_is_scores && event.other.storage != 0 && broadcasts_over_keys(event.other, in);
  std::uint64_t read = in.bytes();
  // A dropout mask, or the scores of a further product. A mask's bytes count as an operand instead.
  if (!masks && event.other.dims > 0 && event.other.elements() == out.elements()) {
    read += event.other.bytes();
    work.complete = work.complete && other_is_scores;
  }
  work.traffic_bytes += read + out.bytes();
  if (event.kind == Kind::kMaskedFill && !in_place(event)) {
    work.traffic_bytes += 2 * out.bytes();  // ATen copies, then fills the copy in place
  }
  if (!in_place(event)) {
    work.score_bytes += out.bytes();
  }
  work.add_memory(event.span, read);
  work.glue_ns += event.span.duration_ns();
  work.move_to(out);
  return masks;
}

ElementwiseRole EagerRecogniser::on_elementwise(const ElementwiseEvent& event) noexcept {
  if (!detail_ || event.in.dims < 0 || event.out.dims < 0 || event.other.dims < 0) {
    return ElementwiseRole::kNone;
  }
  for (EagerChain& chain : chains_) {
    if (chain.open && chain.work().glue_ns >= 0 && chain.work().holds(event.in, chain.product.shape.out_elements())) {
      // What zeroes probabilities after the softmax (dropout) admits no fewer pairs.
      book(chain.work(), event, false);
      return ElementwiseRole::kChain;
    }
  }
  if (backward_.open && backward_.detail && backward_.work.holds(event.in, backward_.scores.out_elements())) {
    book(backward_.work, event, false);
    return ElementwiseRole::kChain;
  }
  EagerProduct* by_in = nullptr;
  EagerProduct* by_other = nullptr;
  for (EagerProduct& product : products_) {
    if (!product.open || product.work.glue_ns < 0) {
      continue;
    }
    const std::int64_t elements = product.shape.out_elements();
    by_in = product.work.holds(event.in, elements) ? &product : by_in;
    by_other = product.work.holds(event.other, elements) ? &product : by_other;
  }
  if (by_in == nullptr && by_other == nullptr) {
    return on_other_op(event);
  }
  if (by_in == nullptr) {
    ElementwiseEvent turned = event;
    std::swap(turned.in, turned.other);
    // `other` being the scores, no mask can be named to the caller.
    book(by_other->work, turned, true);
    return ElementwiseRole::kChain;
  }
  if (by_other != nullptr && by_other != by_in) {
    // The sum of two products belongs to the first of them: QKᵀ.
    EagerProduct* later = by_in->sequence < by_other->sequence ? by_other : by_in;
    later->work.latest = 0;
    return on_score_op(later == by_in ? *by_other : *by_in, event, true);
  }
  return on_score_op(*by_in, event, by_other != nullptr);
}

ElementwiseRole EagerRecogniser::on_score_op(EagerProduct& product, const ElementwiseEvent& event,
                                             bool other_is_scores) noexcept {
  if (!book(product.work, event, other_is_scores)) {
    return ElementwiseRole::kChain;
  }
  product.work.add_mask_copy(copies_.take(event.other, CopyRing::kMaskSteps));
  product.work.mask_unanswered = true;
  masked_ = &product;
  return ElementwiseRole::kMask;
}

ElementwiseRole EagerRecogniser::on_other_op(const ElementwiseEvent& event) noexcept {
  if (builds_mask(event)) {
    copies_.put(event.other, event.out, event.out.bytes());
    return ElementwiseRole::kMaskCopy;
  }
  copies_.put(event.in, event.out, copied_bytes(event));
  return expands_heads(event) ? ElementwiseRole::kKeyValue : ElementwiseRole::kNone;
}

void EagerRecogniser::set_mask(records::MaskState state, std::shared_ptr<const records::MaskCount> count,
                               std::uint64_t stored_bytes) noexcept {
  if (masked_ == nullptr) {
    return;
  }
  EagerProduct& product = *std::exchange(masked_, nullptr);
  EagerWork& work = product.work;
  work.mask_unanswered = false;
  work.mask_bytes += stored_bytes;
  const auto all = static_cast<std::uint64_t>(product.shape.out_elements());
  const auto admits_all = [all](records::MaskState mask, const records::MaskCount* counted) {
    return mask == records::MaskState::kNone ||
           (mask == records::MaskState::kCounted && counted != nullptr && counted->pairs == all);
  };
  if (admits_all(work.mask, work.mask_count.get())) {
    // A bias masks nothing, and is no reason to forget that an earlier one was counted.
    if (state != records::MaskState::kNone) {
      work.mask = state;
      work.mask_count = std::move(count);
    }
  } else if (!admits_all(state, count.get()) && (count == nullptr || count != work.mask_count)) {
    work.mask = records::MaskState::kOpaque;
    work.mask_count.reset();
  }
}

std::optional<EagerRecogniser::Finished> EagerRecogniser::flush() noexcept {
  for (EagerChain& chain : chains_) {
    unfinished_ += chain.open ? 1 : 0;
    chain.open = false;
    chain.product.work.mask_count.reset();
  }
  open_chains_ = 0;
  for (EagerProduct& product : products_) {
    product.open = false;
    product.work = {};
  }
  extra_forwards_ = {};
  copies_.clear();
  masked_ = nullptr;
  return backward_.open ? finish_backward() : std::nullopt;
}

}  // namespace headscope::capture
