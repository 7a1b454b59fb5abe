#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headscope/types.h"
#include "records/device_work.h"
#include "records/pattern_sample.h"
#include "records/tolerance_sample.h"

/// The structs that pass between stages. Plain values: no torch, no clock, no lock.
namespace headscope::records {

/// How a variant does its work; decides the formulas of the work model.
enum class Kernel : std::uint8_t {
  kFused,  ///< scores never leave the chip
  kEager,  ///< scores are tensors: hand-written chains and the math path
};

/// An op of the table. Has a stable address for the life of the process.
struct OpInfo {
  std::string name;     ///< "aten::_scaled_dot_product_flash_attention_for_cpu", or "bmm+softmax+bmm"
  std::string variant;  ///< "sdpa_flash"
  Kernel kernel = Kernel::kFused;
  /// False where the op's time holds other work that cannot be told apart (vLLM's unified ops).
  bool time_is_attention = true;
};

/// Shape of one call. For varlen batches `q_len` and `kv_len` are the longest.
struct Geometry {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

enum class Causal : std::uint8_t {
  kNone,
  kUpperLeft,   ///< query i sees keys 0..i (torch's is_causal)
  kLowerRight,  ///< query i sees keys 0..i+Sk−Sq (flash-attn)
};

/// Query i sees keys within [d−left, d+right] of its diagonal d (i when upper-left or without causal,
/// i+Sk−Sq when lower-right). Negative: unlimited.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
  /// Of a window without causal: d = i+Sk−Sq (flash-attn) instead of i.
  bool lower_right = false;

  [[nodiscard]] bool limited() const noexcept { return left >= 0 || right >= 0; }
  friend bool operator==(const Window&, const Window&) = default;
};

enum class MaskState : std::uint8_t {
  kNone,
  kCounted,  ///< `MaskCount` is exact
  kOpaque,   ///< not counted (budget, or not on the CPU): every pair taken as admitted
  kUnseen,   ///< the chain may hold a mask that no hooked op showed
};

/// What an explicit mask admits, broadcast to the call's batch and heads. Shared, since the same
/// mask serves every layer.
struct MaskCount {
  std::uint64_t pairs = 0;
  /// Admitted pairs of each query head; empty when all heads have the same.
  std::vector<std::uint64_t> pairs_per_head = {};
  /// Number of leading keys up to the last one that any query may see.
  std::int64_t used_keys = 0;
  /// No query i sees a key beyond i, and some query beyond the first sees more than one key.
  bool lower_triangle = false;

  friend bool operator==(const MaskCount&, const MaskCount&) = default;
};

/// Lengths of the sequences in a varlen or paged batch.
struct Lengths {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> k;

  friend bool operator==(const Lengths&, const Lengths&) = default;
};

/// Elements that an operand touches, each address once: a broadcast axis (stride 0) counts 1.
struct Operand {
  std::uint64_t elements = 0;
  std::uint32_t element_size = 0;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return elements * element_size; }
  friend bool operator==(const Operand&, const Operand&) = default;
};

enum class DeviceType : std::uint8_t { kCpu, kCuda, kXpu, kOther };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int8_t index = -1;

  friend bool operator==(const Device&, const Device&) = default;
};

enum class DType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kFloat8, kInt8, kOther };

/// Why the composite scaled_dot_product_attention took the math path.
enum class FallbackReason : std::uint8_t {
  kNone,
  kDisabledByUser,
  kDropout,
  kHeadDims,
  kRank,
  kMaskRequiresGrad,
  kMaskShape,
  kEmpty,
  kLastDimStride,
  kDtype,
  kNested,
  kUnknown,
};

/// Ops that the device clock saw a call open on its thread: what they launched is the call's. Ids of a thread grow.
struct OpRange {
  std::uint64_t outer = 0;  ///< the op around the others, or the first of them; 0: the device clock did not run
  std::uint64_t first = 0;  ///< what is launched before this one, or between the ops, is not attention's own
  std::uint64_t last = 0;
  /// Bit i: `first` + i is one of the ops. Later ones up to `last` all count as such.
  std::uint64_t members = ~std::uint64_t{0};
  std::uint32_t thread = 0;  ///< the operating system's id

  [[nodiscard]] bool holds(std::uint64_t op) const noexcept {
    return op >= first && op <= last && (op - first >= 64 || (members >> (op - first) & 1U) != 0);
  }
  /// Adds an op to a chain's.
  void add(std::uint64_t op) noexcept { add(OpRange{op, op, op, 1, 0}); }
  void add(const OpRange& other) noexcept;

  friend bool operator==(const OpRange&, const OpRange&) = default;
};

inline void OpRange::add(const OpRange& other) noexcept {
  if (other.first == 0) {
    return;
  }
  if (first == 0) {
    *this = other;
    return;
  }
  const OpRange& low = first <= other.first ? *this : other;
  const OpRange& high = first <= other.first ? other : *this;
  const std::uint64_t distance = high.first - low.first;
  members = low.members | (distance < 64 ? high.members << distance : 0);
  last = last > other.last ? last : other.last;
  first = low.first;
  outer = first;
}

/// Layer of a call: an interned label, or the call's order on its thread when it has none.
struct LayerRef {
  /// Order of a backward whose forward is not known.
  static constexpr std::uint64_t kUnknownOrder = ~std::uint64_t{0};

  std::uint32_t label = 0;   ///< intern_layer's handle; 0: none
  std::uint32_t thread = 0;  ///< index of the recording thread, in which `order` counts
  std::uint64_t order = 0;   ///< unnamed forward calls made by that thread before this one

  friend bool operator==(const LayerRef&, const LayerRef&) = default;
};

/// Which operands' gradients a backward made.
struct Gradients {
  bool q = true;
  bool k = true;
  bool v = true;

  friend bool operator==(const Gradients&, const Gradients&) = default;
};

/// What the ops of an eager chain, or of the math path, wrote and read beyond the operands.
struct Materialized {
  std::uint64_t traffic_bytes = 0;  ///< written once and read once by each op that does so
  std::uint64_t kv_copy_bytes = 0;
  std::uint64_t mask_copy_bytes = 0;
  /// Every op between the products was hooked (Eager::kDetail), so that nothing is missing.
  bool exact = false;

  friend bool operator==(const Materialized&, const Materialized&) = default;
};

/// What a call's keys tell of the cache that they lie in, in slots over all sequences.
struct CacheUse {
  std::int64_t capacity = 0;  ///< 0: the keys are no part of a larger tensor
  std::int64_t used = 0;
  /// Of a paged cache; used ones are −1 where the table or the lengths were not read.
  std::int64_t block_size = 0;  ///< 0: not paged
  std::int64_t blocks_total = 0;
  std::int64_t blocks_used = -1;

  friend bool operator==(const CacheUse&, const CacheUse&) = default;
};

/// Bytes of allocations under a composite op by what they were for, as their sizes tell.
struct FoundAllocations {
  std::int64_t kv_copies = 0;
  std::int64_t masks = 0;
  std::int64_t upcasts = 0;

  friend bool operator==(const FoundAllocations&, const FoundAllocations&) = default;
};

/// One execution of attention, as captured. Times are CLOCK_MONOTONIC nanoseconds.
struct AttentionCall {
  std::uint64_t call_id = 0;
  std::uint64_t forward_call_id = 0;  ///< 0: none or not known
  const OpInfo* op = nullptr;
  LayerRef layer;
  /// Keys and values come from another sequence; known from the layer.
  bool cross = false;
  Direction direction = Direction::kForward;
  bool inside_backward = false;
  bool has_dropout = false;
  /// Stopped before PV: activation checkpointing ends a recompute once the last tensor that it needs is there.
  bool scores_only = false;
  Device device;
  DType dtype = DType::kOther;
  Geometry geometry;

  Causal causal = Causal::kNone;
  MaskState mask = MaskState::kNone;
  FallbackReason fallback = FallbackReason::kNone;
  Window window;
  std::shared_ptr<const MaskCount> mask_count;  ///< when `mask` is kCounted
  std::shared_ptr<const Lengths> lengths;       ///< varlen and paged batches
  /// Varlen or paged, but the lengths are on a device or in a form that was not read: pairs, FLOPs
  /// and the phase are unknown.
  bool lengths_unknown = false;
  /// K and V hold the tokens of the batch and nothing more (a varlen pack, not a pool of pages), so that
  /// their bytes are known even where the lengths are not.
  bool kv_packed = false;

  Operand q, k, v, out;
  CacheUse cache;
  /// Bytes that K and V share (MLA keeps V inside K).
  std::uint64_t kv_overlap_bytes = 0;
  /// Bytes of Q that K or V touch too (one tensor given as query, key and value).
  std::uint64_t q_overlap_bytes = 0;
  /// Mask bytes as stored.
  std::uint64_t mask_bytes = 0;
  /// Of a backward.
  Gradients gradients;
  /// Products in the chain beyond QKᵀ and PV (DeBERTa's position scores), FLOPs.
  std::uint64_t extra_product_flops = 0;
  /// Of an eager backward: FLOPs of the products that ran (frozen inputs run fewer).
  std::optional<std::uint64_t> product_flops;
  Materialized materialized;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t time_ns = 0;   ///< the attention's own ops; −1 unknown
  std::int64_t glue_ns = -1;  ///< between them; −1 unknown
  std::int64_t other_ns = -1;
  TimeSource time_source = TimeSource::kHost;
  OpRange device_ops;
  /// Known by its kernel alone: no op announced it, and the host times are the kernel's.
  bool lone_kernel = false;
  std::shared_ptr<const DeviceWork> device_work;  ///< nullptr: no device clock, or nothing was launched

  std::int64_t allocated_bytes = -1;  ///< −1 unknown
  std::int64_t peak_bytes = -1;
  std::int64_t score_bytes = -1;
  /// std::nullopt where copies were not made inside the op that was measured.
  std::optional<FoundAllocations> found;

  /// Of a forward call in a step whose attention weights are sampled.
  std::shared_ptr<const PatternSample> pattern_sample;
  std::shared_ptr<const ToleranceSample> tolerance_sample;
  NotSampled not_sampled = NotSampled::kNone;

  /// Running profilers that see this call, a bit a slot.
  std::uint32_t sessions = 0;
};

/// What a call's allocations were for, in bytes. Parts may have followed each other in the same memory, so
/// that their sum may be above the peak.
struct MemoryParts {
  std::int64_t score_matrix = 0;
  std::int64_t mask = 0;
  std::int64_t kv_copy = 0;
  std::int64_t upcast = 0;
  std::int64_t gradient = 0;
  std::int64_t output = 0;
  /// The rest of the peak: the kernel's own buffers.
  std::int64_t workspace = 0;

  friend bool operator==(const MemoryParts&, const MemoryParts&) = default;
};

/// Phases are counted by their enum.
inline constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kMixed) + 1;

/// What each phase has of a batch that holds several.
struct PhaseShares {
  std::array<std::uint64_t, kPhases> sequences{};
  std::array<std::uint64_t, kPhases> queries{};
  std::array<std::uint64_t, kPhases> pairs{};     ///< admitted, by which time and FLOPs divide
  std::array<std::uint64_t, kPhases> elements{};  ///< of Q, K, V and O, by which bytes divide
};

/// A call with its work. Unknown figures are std::nullopt.
struct CostedCall {
  const AttentionCall* call = nullptr;
  Phase phase = Phase::kUnknown;
  std::shared_ptr<const PhaseShares> phase_shares;  ///< when `phase` is kMixed
  std::optional<std::uint64_t> queries;             ///< over the batch, of one head
  std::optional<std::uint64_t> pairs;
  std::optional<std::uint64_t> flops;
  std::optional<std::uint64_t> flops_dense;
  std::optional<std::uint64_t> recompute_flops;
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> bytes_materialized;
  Provenance flops_provenance = Provenance::kModelled;
  Provenance bytes_provenance = Provenance::kModelled;
  Provenance materialized_provenance = Provenance::kModelled;
  /// Weight of each query head in figures that follow the admitted pairs; empty: equal. Points into
  /// the call.
  const std::vector<std::uint64_t>* head_weights = nullptr;
  MemoryParts memory;  ///< of the call's peak; all 0 where that was not measured
};

}  // namespace headscope::records
