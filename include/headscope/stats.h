#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headscope/budget.h"
#include "headscope/export.h"
#include "headscope/inference.h"
#include "headscope/kv_cache.h"
#include "headscope/options.h"
#include "headscope/patterns.h"
#include "headscope/tolerance.h"
#include "headscope/types.h"

namespace headscope {

/// Distribution of a time over the calls of a row. Quantiles come from a sketch with a relative
/// error of at most 1 %; the row's first call (`first`) is kept out of them, because the first call
/// of a kernel pays one-off costs. A row with a single call has only `total` and `first`.
struct TimeStats {
  Nanoseconds total{};
  Nanoseconds first{};
  std::optional<Nanoseconds> mean;
  std::optional<Nanoseconds> min;
  std::optional<Nanoseconds> p50;
  std::optional<Nanoseconds> p90;
  std::optional<Nanoseconds> p99;
  std::optional<Nanoseconds> max;
  std::optional<Nanoseconds> std;
  TimeSource source = TimeSource::kHost;

  friend bool operator==(const TimeStats&, const TimeStats&) = default;
};

/// A kernel, copy or fill of the calls of a group, by name.
struct KernelRow {
  /// As the device names it; "(others)" for those beyond the first 32 names of a row.
  std::string name;
  /// "attention"; "glue" (between the ops of an eager chain); "other" (under the op, and no attention).
  std::string part;
  std::uint64_t count = 0;
  Nanoseconds time{};

  friend bool operator==(const KernelRow&, const KernelRow&) = default;
};

/// A kernel, copy or fill of one call.
struct CallKernelRow {
  std::string name;
  std::string part;  ///< as KernelRow::part
  Nanoseconds time{};
  std::uint32_t stream = 0;
  std::array<std::int32_t, 3> grid{};

  friend bool operator==(const CallKernelRow&, const CallKernelRow&) = default;
};

/// The figures of a group of calls. Sums are over all calls of the group; docs/metrics.md holds the
/// formulas. An absent figure is std::nullopt, never 0.
struct Figures {
  std::uint64_t calls = 0;
  /// The attention's own time: products and softmax of an eager chain, the whole op of a fused one. On a device the sum
  /// of its kernels' times. std::nullopt when some call was not timed, or was timed by another clock.
  std::optional<TimeStats> time;
  /// From the start of the first op of a call to the end of its last, on the host. std::nullopt of calls that are known
  /// by their kernel alone.
  std::optional<Nanoseconds> host;
  /// What runs between the ops of an eager chain: scale, mask, dropout, casts.
  std::optional<Nanoseconds> glue;
  /// Work under the op that is no attention (projections of native_mha).
  std::optional<Nanoseconds> other;
  /// Between the first and the last kernel of a call, with none of its kernels running.
  std::optional<Nanoseconds> gap;
  /// From the start of the launch of a call's first kernel to that kernel's start: the mean over the calls that found
  /// the stream idle,
  std::optional<Nanoseconds> launch_latency;
  /// and over those that found earlier work on it.
  std::optional<Nanoseconds> queue;
  /// By falling time. Empty where no device clock was read.
  std::vector<KernelRow> kernels;

  std::optional<Count> flops;
  std::optional<Count> flops_dense;
  /// The part of a fused backward's flops that repeats QKᵀ.
  std::optional<Count> recompute_flops;
  /// Compulsory traffic: each operand once.
  std::optional<Count> bytes;
  /// Extra traffic that the variant makes: score matrices, expanded K and V, built masks, upcasts.
  std::optional<Count> bytes_materialized;
  /// Bytes of the copies of K and V made for GQA or layout, each copy once. Known with Eager::kDetail.
  std::optional<Count> kv_copy_bytes;
  /// Bytes of masks built from another mask, each once. Known with Eager::kDetail.
  std::optional<Count> mask_copy_bytes;

  /// The largest rise of allocated memory above the level at a call's start.
  std::optional<std::int64_t> peak_bytes;
  /// Bytes of all query×key sized tensors allocated in one call, the largest over the group.
  std::optional<std::int64_t> score_bytes;
  /// Bytes allocated by all calls together.
  std::optional<Count> allocated_bytes;

  /// False when some call's time holds other work that cannot be told apart: no rate of FLOPs follows from it.
  bool time_is_attention = true;

  /// Provenance of each figure above by its metric id, where the figure is present.
  std::map<std::string, Provenance> provenance;

  friend bool operator==(const Figures&, const Figures&) = default;
};

/// One (layer, variant, op, phase, direction, device, dtype, head geometry).
struct AttentionRow : Figures {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  /// The layer was named by the order of its calls (AttentionProfiler::name_by_order): estimated.
  bool layer_by_order = false;
  std::string variant;
  std::string op;
  Phase phase = Phase::kUnknown;
  Direction direction = Direction::kForward;
  /// A forward that ran inside a backward pass without repeating an earlier one.
  bool inside_backward = false;
  std::string device;
  std::string dtype;

  Range batch;
  std::int64_t heads = 0;
  /// Key/value heads as executed: a model that repeats K and V itself shows `heads` here.
  std::int64_t kv_heads = 0;
  /// Key/value heads of the model, where the model was given.
  std::optional<std::int64_t> model_kv_heads;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;
  Range q_len;
  Range kv_len;

  /// std::nullopt when calls of the row differ.
  std::optional<bool> causal;
  /// "upper_left" or "lower_right" when causal.
  std::optional<std::string> causal_alignment;
  /// "none", "counted" (exact), "opaque" (pairs taken as dense), "unseen" or "mixed".
  std::string mask;
  /// Why scaled_dot_product_attention took the math path.
  std::optional<std::string> fallback_reason;

  friend bool operator==(const AttentionRow&, const AttentionRow&) = default;
};

/// One (layer, head, direction). A head is a query head; sums over the heads of a layer equal the
/// layer's rows exactly.
struct HeadRow {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::int64_t head = 0;
  std::int64_t kv_head = 0;
  Direction direction = Direction::kForward;
  std::uint64_t calls = 0;
  std::optional<Count> flops;
  std::optional<Count> bytes;
  std::optional<Count> bytes_materialized;
  std::optional<Count> allocated_bytes;
  /// Share of the layer's time by admitted pairs.
  std::optional<Nanoseconds> time;
  Provenance time_provenance = Provenance::kModelled;
  /// Of forward rows where patterns were sampled; HeadPattern says what they are.
  std::optional<double> entropy;
  std::optional<double> effective_tokens;
  std::optional<double> sink_mass;
  std::optional<double> local_mass;

  friend bool operator==(const HeadRow&, const HeadRow&) = default;
};

/// One call, kept when Options::keep_calls asks for it.
struct CallRow {
  std::uint64_t call_id = 0;
  /// Of a backward or a recompute: the forward call that it belongs to.
  std::optional<std::uint64_t> forward_call_id;
  std::string layer;
  std::string variant;
  std::string op;
  Phase phase = Phase::kUnknown;
  Direction direction = Direction::kForward;
  bool inside_backward = false;
  std::string device;
  std::string dtype;
  std::int64_t step = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  bool causal = false;
  std::string mask;
  std::optional<std::string> fallback_reason;
  std::optional<Nanoseconds> time;
  TimeSource time_source = TimeSource::kHost;
  std::optional<Nanoseconds> host;
  std::optional<Nanoseconds> gap;
  std::optional<Nanoseconds> launch_latency;
  std::optional<Nanoseconds> queue;
  std::vector<CallKernelRow> kernels;
  std::optional<Count> flops;
  std::optional<Count> flops_dense;
  std::optional<Count> recompute_flops;
  std::optional<Count> bytes;
  std::optional<Count> bytes_materialized;
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> score_bytes;

  friend bool operator==(const CallRow&, const CallRow&) = default;
};

/// Bytes of one purpose.
struct MemoryPart {
  /// "score_matrix", "mask", "kv_copy", "upcast", "gradient", "output" or "workspace" (the kernel's own buffers).
  std::string cause;
  std::int64_t bytes = 0;

  friend bool operator==(const MemoryPart&, const MemoryPart&) = default;
};

/// The largest call of a row, or the largest copies of K, V and mask made for one (Eager::kDetail shows them).
struct MemorySpike {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::string variant;
  Direction direction = Direction::kForward;
  std::int64_t step = 0;
  /// Rise above the level at the call's start; of copies made before it, their size.
  std::int64_t bytes = 0;
  /// The largest of `parts`.
  std::string cause;
  /// What was allocated, by falling size. Parts may have followed each other in the same memory.
  std::vector<MemoryPart> parts;

  friend bool operator==(const MemorySpike&, const MemorySpike&) = default;
};

/// The largest peak of a layer's calls.
struct LayerPeak {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::optional<std::int64_t> peak_bytes;

  friend bool operator==(const LayerPeak&, const LayerPeak&) = default;
};

/// Peak of the whole scope on one device.
struct DevicePeak {
  std::string device;
  /// The largest rise above the level at the profiler's start.
  std::int64_t peak_bytes = 0;

  friend bool operator==(const DevicePeak&, const DevicePeak&) = default;
};

/// Where memory went.
struct MemorySection {
  /// With Memory::kScope; empty otherwise.
  std::vector<DevicePeak> devices;
  /// Why `devices` are not, or not fully, known; empty when they are.
  std::string incomplete;
  std::vector<LayerPeak> layers;
  /// At most 16, the largest first.
  std::vector<MemorySpike> spikes;

  friend bool operator==(const MemorySection&, const MemorySection&) = default;
};

/// A point of the series over steps: one step, or, of a long run, the sums over neighbouring ones.
struct StepPoint {
  /// Steps are numbered from 0.
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// How many steps are in the point. Steps during which the profiler was not on are in none.
  std::int64_t steps = 0;
  /// Time during which the profiler was on.
  Nanoseconds wall{};
  std::uint64_t calls = 0;
  /// Sum of the calls' own times over all threads, and its parts by direction.
  Nanoseconds attention{};
  Nanoseconds forward{};
  Nanoseconds backward{};
  Nanoseconds recompute{};
  std::optional<Count> flops;
  std::optional<Count> bytes;
  std::optional<Count> bytes_materialized;
  /// The largest of a call, std::nullopt without calls.
  std::optional<std::int64_t> peak_bytes;

  friend bool operator==(const StepPoint&, const StepPoint&) = default;
};

/// Where the profiled time, and the FLOPs of attention, went. Host clock.
struct TimeSection {
  /// Time during which the profiler was on.
  Nanoseconds wall{};
  /// Steps ended.
  std::int64_t steps = 0;
  /// Sum of the calls' own times over all threads.
  Nanoseconds attention{};
  Nanoseconds forward{};
  Nanoseconds backward{};
  Nanoseconds recompute{};
  /// attention ÷ wall; std::nullopt when no time passed. Above 1 when threads overlap.
  std::optional<double> attention_share;
  /// wall − attention; std::nullopt when attention is above wall, because threads overlap.
  std::optional<Nanoseconds> outside_attention;
  /// Nothing ran on a device, between its first and its last work; summed over devices.
  std::optional<Nanoseconds> device_idle;
  /// recompute ÷ wall; std::nullopt when no time passed.
  std::optional<double> recompute_share;

  /// FLOPs of attention that ran.
  std::optional<Count> hardware_flops;
  /// The same without what was computed again: recomputed forwards, and QKᵀ inside fused backwards.
  std::optional<Count> model_flops;
  /// Share of hardware_flops that recomputed forwards had; std::nullopt without FLOPs.
  std::optional<double> recompute_flops_share;
  /// Share of hardware_flops that fused backwards spent on making QKᵀ again.
  std::optional<double> backward_recompute_flops_share;

  friend bool operator==(const TimeSection&, const TimeSection&) = default;
};

/// Something that could not be measured, and why.
struct NotObservable {
  std::string what;
  std::string reason;

  friend bool operator==(const NotObservable&, const NotObservable&) = default;
};

/// What the profiler says about itself.
struct Diagnostics {
  /// Own cost: the hooks' time, sampled, plus folding. std::nullopt of a recorded trace.
  std::optional<Nanoseconds> overhead;
  std::optional<double> overhead_share;
  std::uint64_t calls_seen = 0;
  std::uint64_t calls_attributed = 0;
  /// Calls of ops that raised; they are in no row.
  std::uint64_t calls_failed = 0;
  /// QKᵀ → softmax seen, but no PV after it: no attention, in no row.
  std::uint64_t chains_unfinished = 0;
  /// Calls that share the row `attention[*]` because a step had more than 512 unnamed ones.
  std::uint64_t calls_beyond_labels = 0;
  /// Calls whose time is not known; they have rows of their own.
  std::uint64_t calls_untimed = 0;
  /// Kernels, copies and fills whose launch is not known; std::nullopt where no device clock was read.
  std::optional<std::uint64_t> kernels_unmatched;
  /// Calls that did not run, but went into CUDA graphs; each replay is a call of its own.
  std::optional<std::uint64_t> calls_captured;
  /// Kernels of CUDA graphs that were captured while nobody looked: their ops are not known.
  std::optional<std::uint64_t> kernels_of_unknown_graphs;
  /// Device records that were lost.
  std::optional<std::uint64_t> records_dropped;
  /// Failures inside headscope; the op ran as if unprofiled.
  std::uint64_t hook_errors = 0;
  std::string device_timing_mode;
  std::string device_timing_reason;
  std::vector<NotObservable> not_observable;

  friend bool operator==(const Diagnostics&, const Diagnostics&) = default;
};

/// The recording that figures were read from.
struct TraceMeta {
  std::string path;
  /// Of the process among those of a distributed run, and their number; std::nullopt when not recorded.
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  /// "cuda", "rocm" or "xpu"; empty when the trace does not say.
  std::string platform;
  /// Names of its devices.
  std::vector<std::string> devices;
  std::uint64_t events = 0;
  /// Events that could not be used, by reason.
  std::map<std::string, std::uint64_t> skipped;

  friend bool operator==(const TraceMeta&, const TraceMeta&) = default;
};

/// Where and with what the figures were made.
struct Meta {
  std::string headscope_version;
  std::string torch_version;
  Options options;
  /// Set for figures that read_trace made.
  std::optional<TraceMeta> trace;

  friend bool operator==(const Meta&, const Meta&) = default;
};

/// A snapshot of a profiler. A value: safe to keep, to copy and to move to another thread.
struct HEADSCOPE_EXPORT Stats {
  static constexpr int kSchemaVersion = 1;

  Meta meta;
  /// All attention together.
  Figures total;
  std::vector<AttentionRow> attention_breakdown;
  std::vector<HeadRow> heads;
  std::vector<CallRow> calls;
  /// One point a step, at most 512: in longer runs neighbours share one. Empty when no step ended.
  std::vector<StepPoint> steps;
  /// Every attention call by phase and direction.
  std::vector<PhaseRow> phases;
  /// Each layer's, and of each kind all layers together.
  std::vector<PositionSeries> positions;
  /// std::nullopt where nothing was prefilled or decoded.
  std::optional<RequestSection> requests;
  /// The process's caches that lived while the profiler ran, and those seen in its calls.
  std::vector<KvCacheRow> kv_cache;
  /// Parts of the program that were marked, by falling time; the attention of all calls and what is in no stage too.
  std::vector<StageRow> stages;
  MemorySection memory;
  TimeSection time;
  /// std::nullopt unless Options::patterns asks for it, and until a sampled step had attention.
  std::optional<PatternSection> patterns;
  /// The same with Options::tolerance.
  std::optional<ToleranceSection> tolerance;
  Diagnostics diagnostics;

  /// The violations of `budget`; empty when it is met. A budget that matches no row, or that meets
  /// an unknown figure, is a violation unless Budget::allow_missing. Throws Error for a budget that
  /// limits nothing.
  [[nodiscard]] std::vector<Violation> check(const Budget& budget) const;

  friend bool operator==(const Stats&, const Stats&) = default;
};

}  // namespace headscope
