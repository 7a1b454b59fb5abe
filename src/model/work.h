#pragma once

#include <cstdint>

#include "records/attention_call.h"

namespace headscope::model {

/// The work of one call, as exact integers. Runs once a call: no allocation, and no loop but over the
/// sequences of a varlen batch. P = admitted pairs over batch and query heads, D and Dv = head dims.
///
/// FLOPs, matrix products only, a multiply-add being 2:
///   forward, recompute  2·P·(D + Dv); 2·P·D of a recompute that stopped before PV (`scores_only`)
///   fused backward      2·P·(3D + 2Dv), whatever gradients were asked for: one kernel makes them all;
///                       2·P·D of it, QKᵀ made again, is `recompute_flops` (0 for all other calls)
///   eager backward      2·P·(D [dQ] + D [dK] + Dv [dV] + Dv [dP, unless only V's gradient is made]).
///                       Where the products that ran are known (`product_flops`, which is dense and holds
///                       no extra products), floor(product_flops · P / P_dense) instead: the same number
///                       when all of them were seen.
/// `extra_product_flops` is added to `flops` and `flops_dense`. A mask that was not counted makes P dense
/// and `flops_provenance` estimated; `flops_dense` is exact all the same.
///
/// Bytes: the elements each operand touches, once. With known lengths an operand counts no more than the
/// tokens of the batch (a page pool or a padded width is larger), with a sliding window K and V count the
/// keys that some query sees; `kv_overlap_bytes` goes off once. Pages that sequences share count once for
/// each. A forward moves Q, K, V, O and the mask as stored; a backward reads Q, K, V, O, dO and, when
/// fused, the mask, and writes the gradients made, whole. An operand that was not seen is taken from the
/// geometry, and `bytes_provenance` is estimated.
///
/// Materialised bytes of an eager call that recorded none are unknown, not 0: scores are always written.
///
/// Unknown lengths leave pairs and FLOPs unknown, and the bytes too unless `kv_packed` without a window.
/// Intermediates have 128 bits, enough for lengths below 2³¹ with batch · heads · (3D + 2Dv) below 2⁶⁴;
/// a result that does not fit 64 bits is unknown.
records::CostedCall cost(const records::AttentionCall& call, std::int64_t decode_max_q) noexcept;

}  // namespace headscope::model
