#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

enum class MaskType : std::uint8_t { kBool, kFloat32, kFloat64, kFloat16, kBFloat16 };

/// An explicit mask in host memory.
struct MaskData {
  const void* data = nullptr;
  MaskType type = MaskType::kBool;
  /// Of a bool mask: True means masked (masked_fill) instead of admitted (scaled_dot_product_attention).
  bool true_is_masked = false;
  TensorView view;
};

/// Elements of `view` that a scan reads.
std::int64_t scanned_elements(const TensorView& view) noexcept;

/// What `mask` admits when broadcast to `geometry`'s [batch, heads, q_len, kv_len]; a last axis of
/// kv_len + 1 (attention sinks) counts its first kv_len columns. An element of a float mask is masked
/// if it is −inf or ≤ the dtype's lowest value ÷ 2 (a sum of two "lowest" masks is still masked).
/// std::nullopt when the shapes do not broadcast.
std::optional<records::MaskCount> scan_mask(const MaskData& mask, const records::Geometry& geometry);

}  // namespace headscope::capture
