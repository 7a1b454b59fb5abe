#pragma once

#include "capture/tensor_view.h"

namespace headscope::capture {

/// Elements that `tensor` touches, each address once: axes of stride 0 count 1.
records::Operand operand_of(const TensorView& tensor) noexcept;

/// Bytes that `k` and `v` both touch. Exact for views of one storage that share their strides
/// (V as a slice of K, packed QKV, K used as V); 0 for different storages; for views of one storage
/// with different strides, 0 when their address ranges are disjoint, else the overlap of the ranges
/// bounded by the smaller operand.
std::uint64_t overlap_bytes(const TensorView& k, const TensorView& v) noexcept;

/// Bytes of `q` that `k` or `v` touch too. Where K and V overlap each other in part, the larger of the two
/// overlaps: exact when one of them holds the other.
std::uint64_t query_overlap_bytes(const TensorView& q, const TensorView& k, const TensorView& v) noexcept;

}  // namespace headscope::capture
