#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "records/attention_call.h"

/// Builders of records for tests: `a_call().shape(2, 8, 128, 64).causal(records::Causal::kUpperLeft).build()`.
namespace headscope::test_support {

inline const records::OpInfo& fused_op() {
  static const records::OpInfo op{"aten::_scaled_dot_product_flash_attention_for_cpu", "sdpa_flash",
                                  records::Kernel::kFused, true};
  return op;
}

inline const records::OpInfo& eager_op() {
  static const records::OpInfo op{"bmm+softmax+bmm", "eager", records::Kernel::kEager, true};
  return op;
}

/// A fused fp32 forward of one head unless told otherwise. Operands that are not given are contiguous
/// tensors of the geometry's shape, or packs of the lengths' tokens.
class CallBuilder {
 public:
  CallBuilder() {
    call_.op = &fused_op();
    call_.dtype = records::DType::kFloat32;
    call_.geometry = {1, 1, 1, 1, 1, 1, 1};
  }

  /// Self-attention [batch, heads, length, dim] with one dim for all.
  CallBuilder& shape(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t dim) {
    call_.geometry = {batch, heads, heads, length, length, dim, dim};
    return *this;
  }
  CallBuilder& kv_heads(std::int64_t heads) { return call_.geometry.kv_heads = heads, *this; }
  CallBuilder& q_len(std::int64_t length) { return call_.geometry.q_len = length, *this; }
  CallBuilder& kv_len(std::int64_t length) { return call_.geometry.kv_len = length, *this; }
  CallBuilder& head_dim_v(std::int64_t dim) { return call_.geometry.head_dim_v = dim, *this; }

  CallBuilder& causal(records::Causal causal) { return call_.causal = causal, *this; }
  CallBuilder& window(std::int64_t left, std::int64_t right) {
    call_.window.left = left;
    call_.window.right = right;
    return *this;
  }
  /// A varlen batch: batch, q_len and kv_len follow from the lengths.
  CallBuilder& lengths(std::vector<std::int64_t> q, std::vector<std::int64_t> k) {
    call_.geometry.batch = static_cast<std::int64_t>(q.size());
    call_.geometry.q_len = longest(q);
    call_.geometry.kv_len = longest(k);
    call_.lengths = std::make_shared<const records::Lengths>(records::Lengths{std::move(q), std::move(k)});
    return *this;
  }
  CallBuilder& mask(records::MaskState state) { return call_.mask = state, *this; }
  CallBuilder& mask(records::MaskCount count) {
    call_.mask = records::MaskState::kCounted;
    call_.mask_count = std::make_shared<const records::MaskCount>(std::move(count));
    return *this;
  }
  CallBuilder& mask_bytes(std::uint64_t bytes) { return call_.mask_bytes = bytes, *this; }

  CallBuilder& op(const records::OpInfo& op) { return call_.op = &op, *this; }
  CallBuilder& eager() { return op(eager_op()); }
  CallBuilder& direction(Direction direction) { return call_.direction = direction, *this; }
  CallBuilder& backward() { return direction(Direction::kBackward); }
  CallBuilder& gradients(records::Gradients gradients) { return call_.gradients = gradients, *this; }
  CallBuilder& cross() { return call_.cross = true, *this; }
  CallBuilder& half() {
    call_.dtype = records::DType::kFloat16;
    element_size_ = 2;
    return *this;
  }

  CallBuilder& q(records::Operand operand) { return call_.q = operand, *this; }
  CallBuilder& k(records::Operand operand) { return call_.k = operand, *this; }
  CallBuilder& v(records::Operand operand) { return call_.v = operand, *this; }
  CallBuilder& out(records::Operand operand) { return call_.out = operand, *this; }

  CallBuilder& id(std::uint64_t id) { return call_.call_id = id, *this; }
  CallBuilder& forward_id(std::uint64_t id) { return call_.forward_call_id = id, *this; }
  CallBuilder& layer(records::LayerRef layer) { return call_.layer = layer, *this; }
  /// From `start_ns`, all of it the attention's own time.
  CallBuilder& time(std::int64_t start_ns, std::int64_t duration_ns) {
    call_.start_ns = start_ns;
    call_.end_ns = start_ns + duration_ns;
    call_.time_ns = duration_ns;
    return *this;
  }
  CallBuilder& sessions(std::uint32_t bits) { return call_.sessions = bits, *this; }

  /// Any other field: `.with([](auto& call) { call.score_bytes = 0; })`.
  template <class Change>
  CallBuilder& with(Change&& change) {
    change(call_);
    return *this;
  }

  [[nodiscard]] records::AttentionCall build() const {
    records::AttentionCall call = call_;
    const records::Geometry& g = call.geometry;
    const std::int64_t queries = call.lengths ? sum(call.lengths->q) : g.batch * g.q_len;
    const std::int64_t keys = call.lengths ? sum(call.lengths->k) : g.batch * g.kv_len;
    fill(call.q, queries * g.heads * g.head_dim);
    fill(call.k, keys * g.kv_heads * g.head_dim);
    fill(call.v, keys * g.kv_heads * g.head_dim_v);
    fill(call.out, queries * g.heads * g.head_dim_v);
    return call;
  }

 private:
  static std::int64_t longest(const std::vector<std::int64_t>& lengths) {
    std::int64_t longest = 0;
    for (const std::int64_t length : lengths) {
      longest = length > longest ? length : longest;
    }
    return longest;
  }
  static std::int64_t sum(const std::vector<std::int64_t>& lengths) {
    std::int64_t sum = 0;
    for (const std::int64_t length : lengths) {
      sum += length;
    }
    return sum;
  }
  /// Leaves an operand alone that the test gave, be it with 0 elements (`{0, 4}`).
  void fill(records::Operand& operand, std::int64_t elements) const {
    if (operand == records::Operand{}) {
      operand = {static_cast<std::uint64_t>(elements), element_size_};
    }
  }

  records::AttentionCall call_;
  std::uint32_t element_size_ = 4;
};

inline CallBuilder a_call() { return {}; }

}  // namespace headscope::test_support
