#include "model/bytes.h"

#include <algorithm>

#include "base/wide.h"
#include "model/facts.h"

namespace headscope::model {

using base::fit;
using base::Wide;
using records::AttentionCall;
using records::Operand;

namespace {

/// Sums the traffic of one call.
class Traffic {
 public:
  Traffic(const AttentionCall& call, const CallPairs* pairs) noexcept : call_(call), pairs_(pairs) {
    for (const Operand* operand : {&call.q, &call.k, &call.v, &call.out}) {
      any_element_size_ = any_element_size_ != 0 ? any_element_size_ : operand->element_size;
    }
  }

  Bytes sum() noexcept {
    if (any_element_size_ == 0) {
      return {};
    }
    const records::Geometry& g = call_.geometry;
    const Wide q_row = Wide{positive(g.heads)} * positive(g.head_dim);
    const Wide k_row = Wide{positive(g.kv_heads)} * positive(g.head_dim);
    const Wide v_row = Wide{positive(g.kv_heads)} * positive(g.head_dim_v);
    const Wide out_row = Wide{positive(g.heads)} * positive(g.head_dim_v);

    const Wide q = query_side(call_.q, q_row);
    const Wide k = key_side(call_.k, k_row);
    const Wide v = call_.scores_only ? 0 : key_side(call_.v, v_row);
    const Wide out = call_.scores_only ? 0 : query_side(call_.out, out_row);
    Wide total = q - std::min<Wide>(call_.q_overlap_bytes, q) + k + v - std::min(overlap(k), k + v) + out;
    if (is_backward(call_)) {
      total += out;  // dO has the shape of O
      total += call_.gradients.q ? gradient(call_.q, q_row, queries()) : 0;
      total += call_.gradients.k ? gradient(call_.k, k_row, keys()) : 0;
      total += call_.gradients.v ? gradient(call_.v, v_row, keys()) : 0;
    }
    const bool reads_mask = !is_backward(call_) || is_fused(call_);
    total += reads_mask ? call_.mask_bytes : 0;
    return {fit(total), exact_ ? Provenance::kModelled : Provenance::kEstimated};
  }

 private:
  [[nodiscard]] std::uint64_t queries() const noexcept { return pairs_ != nullptr ? pairs_->queries : 0; }
  [[nodiscard]] std::uint64_t keys() const noexcept { return pairs_ != nullptr ? pairs_->keys : 0; }

  [[nodiscard]] std::uint64_t size_of(const Operand& operand) const noexcept {
    return operand.element_size != 0 ? operand.element_size : any_element_size_;
  }

  /// Bytes of an operand of `tokens` rows.
  Wide whole(const Operand& operand, Wide row, std::uint64_t tokens) noexcept {
    const Wide by_shape = row * tokens;
    if (operand.elements == 0) {
      exact_ = exact_ && by_shape == 0;
      return by_shape * size_of(operand);
    }
    const Wide elements = call_.lengths != nullptr ? std::min<Wide>(operand.elements, by_shape) : operand.elements;
    return elements * size_of(operand);
  }

  Wide query_side(const Operand& operand, Wide row) noexcept { return whole(operand, row, queries()); }

  Wide key_side(const Operand& operand, Wide row) noexcept {
    const Wide all = whole(operand, row, keys());
    if (pairs_ == nullptr || pairs_->keys_touched == pairs_->keys || pairs_->keys == 0) {
      return all;
    }
    // Every key has as many elements, unless the operand's sequence axis overlaps itself.
    const Wide touched = all * pairs_->keys_touched;
    exact_ = exact_ && touched % pairs_->keys == 0;
    return touched / pairs_->keys;
  }

  /// Bytes that K and V share, in the part of K that is touched.
  [[nodiscard]] Wide overlap(Wide k_touched) const noexcept {
    const Wide k_all = call_.k.bytes();
    const bool none = call_.kv_overlap_bytes == 0 || k_all == 0;  // spares nearly every call a 128-bit division
    return none ? Wide{0} : Wide{call_.kv_overlap_bytes} * std::min(k_touched, k_all) / k_all;
  }

  /// A gradient has an element of its own for each of its operand's, also where that is broadcast.
  [[nodiscard]] Wide gradient(const Operand& operand, Wide row, std::uint64_t tokens) const noexcept {
    return (pairs_ != nullptr ? row * tokens : Wide{operand.elements}) * size_of(operand);
  }

  const AttentionCall& call_;
  const CallPairs* pairs_;
  bool exact_ = true;
  std::uint32_t any_element_size_ = 0;
};

}  // namespace

Bytes compulsory_bytes(const AttentionCall& call, const std::optional<CallPairs>& pairs) noexcept {
  if (!pairs) {
    const bool all_seen =
        call.q.elements != 0 && call.k.elements != 0 && call.v.elements != 0 && call.out.elements != 0;
    if (!call.kv_packed || call.window.limited() || !all_seen) {
      return {};
    }
  }
  return Traffic(call, pairs ? &*pairs : nullptr).sum();
}

Bytes materialized_bytes(const AttentionCall& call) noexcept {
  const records::Materialized& seen = call.materialized;
  if (seen.traffic_bytes == 0 && !seen.exact) {
    return is_fused(call) ? Bytes{std::uint64_t{0}} : Bytes{std::nullopt, Provenance::kEstimated};
  }
  return {seen.traffic_bytes, seen.exact ? Provenance::kModelled : Provenance::kEstimated};
}

}  // namespace headscope::model
