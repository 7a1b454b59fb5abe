#include "aggregate/row_key.h"

namespace headscope::aggregate {
namespace {

// Multiply-xorshift (splitmix64's finaliser) over the fields.
class Hash {
 public:
  template <class T>
  Hash& mix(T value) noexcept {
    state_ ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9ULL;
    state_ ^= state_ >> 27;
    return *this;
  }
  [[nodiscard]] std::size_t value() const noexcept { return static_cast<std::size_t>(state_); }

 private:
  std::uint64_t state_ = 0;
};

std::uint64_t word(LayerKey layer) noexcept {
  return (std::uint64_t{static_cast<std::uint8_t>(layer.kind)} << 32) | layer.value;
}

}  // namespace

RowKey row_key(const records::CostedCall& costed, LayerKey layer) noexcept {
  const records::AttentionCall& call = *costed.call;
  return {.layer = layer,
          .op = call.op,
          .phase = costed.phase,
          .direction = call.direction,
          .inside_backward = call.inside_backward,
          .device = call.device,
          .dtype = call.dtype,
          .heads = call.geometry.heads,
          .kv_heads = call.geometry.kv_heads,
          .head_dim = call.geometry.head_dim,
          .head_dim_v = call.geometry.head_dim_v,
          .time_source = call.time_source,
          .timed = call.time_ns >= 0};
}

HeadKey head_key(const records::CostedCall& costed, LayerKey layer) noexcept {
  const records::AttentionCall& call = *costed.call;
  return {
      .layer = layer, .direction = call.direction, .heads = call.geometry.heads, .kv_heads = call.geometry.kv_heads};
}

std::size_t hash_of(const RowKey& key) noexcept {
  const std::uint64_t small =
      static_cast<std::uint64_t>(key.phase) | static_cast<std::uint64_t>(key.direction) << 8 |
      static_cast<std::uint64_t>(key.inside_backward) << 16 | static_cast<std::uint64_t>(key.dtype) << 24 |
      static_cast<std::uint64_t>(key.device.type) << 32 |
      static_cast<std::uint64_t>(static_cast<std::uint8_t>(key.device.index)) << 40 |
      static_cast<std::uint64_t>(key.time_source) << 48 | static_cast<std::uint64_t>(key.timed) << 56;
  return Hash{}
      .mix(word(key.layer))
      .mix(reinterpret_cast<std::uintptr_t>(key.op))
      .mix(small)
      .mix(key.heads)
      .mix(key.kv_heads)
      .mix(key.head_dim)
      .mix(key.head_dim_v)
      .value();
}

std::size_t hash_of(const HeadKey& key) noexcept {
  return Hash{}
      .mix(word(key.layer))
      .mix(static_cast<std::uint64_t>(key.direction))
      .mix(key.heads)
      .mix(key.kv_heads)
      .value();
}

}  // namespace headscope::aggregate
