#pragma once

#include <cstddef>
#include <cstdint>

#include "aggregate/layer_key.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// What makes two calls belong to the same row of attention_breakdown.
struct RowKey {
  LayerKey layer;
  const records::OpInfo* op = nullptr;
  Phase phase = Phase::kUnknown;
  Direction direction = Direction::kForward;
  bool inside_backward = false;
  records::Device device;
  records::DType dtype = records::DType::kOther;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;
  /// Calls timed by different clocks, or not timed, have rows of their own, so that each row's time is whole.
  TimeSource time_source = TimeSource::kHost;
  bool timed = true;

  friend bool operator==(const RowKey&, const RowKey&) = default;
};

/// What makes two calls share their heads.
struct HeadKey {
  LayerKey layer;
  Direction direction = Direction::kForward;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;

  friend bool operator==(const HeadKey&, const HeadKey&) = default;
};

RowKey row_key(const records::CostedCall& costed, LayerKey layer) noexcept;
HeadKey head_key(const records::CostedCall& costed, LayerKey layer) noexcept;

std::size_t hash_of(const RowKey& key) noexcept;
std::size_t hash_of(const HeadKey& key) noexcept;

}  // namespace headscope::aggregate
