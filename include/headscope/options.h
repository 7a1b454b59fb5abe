#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope {

/// What is measured about memory.
enum class Memory : std::uint8_t {
  kOff,    ///< nothing
  kCalls,  ///< allocations and their peak inside each hooked attention op
  /// Also the peak of the whole scope: of what the thread that starts the profiler allocates, and the backward
  /// passes that it starts. Meanwhile that thread reports to no profiler of torch, of which a C++ program can start
  /// none there (see torch_profiler_starts).
  kScope,
};

/// How hand-written attention (QKᵀ → softmax → PV) is observed.
enum class Eager : std::uint8_t {
  kOff,     ///< only fused ops and scaled_dot_product_attention
  kBasic,   ///< the matrix products and softmaxes
  kDetail,  ///< also the elementwise ops between them: exact materialised bytes and masks
};

/// Which clock times a call.
enum class DeviceTiming : std::uint8_t {
  kAuto,  ///< the host's clock
  /// The device's clock, through CUPTI: kernel times, launch latency and gaps. Where it cannot run, calls are timed as
  /// with kEvents or kHost and Diagnostics says why. Every op is timed by its kernels, so that one on the CPU has no
  /// time. get_stats() and stop() wait for the devices: not while a CUDA graph is captured, which waiting would break.
  kCupti,
  /// Each op by an event before it on its stream and one after it. Also what kCupti does where CUPTI is not to be had.
  /// Waits as kCupti does. Tells no kernels and no glue; what is captured into CUDA graphs has no time.
  kEvents,
  kHost,  ///< the host's monotonic clock around the op
};

/// Which threads a profiler sees.
enum class Threads : std::uint8_t {
  kAll,      ///< every thread of the process between start and stop
  kCurrent,  ///< the thread that started the profiler, and the backward passes that it starts
};

/// Options of an AttentionProfiler. An aggregate, meant for designated initialisers:
/// `AttentionProfiler profiler{{.memory = Memory::kOff, .keep_calls = 100}};`
struct Options {
  Memory memory = Memory::kCalls;
  Eager eager = Eager::kBasic;
  DeviceTiming device_timing = DeviceTiming::kAuto;
  Threads threads = Threads::kAll;
  /// Split every figure over the heads (Stats::heads).
  bool per_head = true;
  /// Longest query that still counts as a decode step.
  std::int64_t decode_max_q = 1;
  /// How many mask elements a step may spend on counting admitted pairs exactly. Beyond it a mask
  /// is `opaque`: its pairs are counted as all admitted.
  std::int64_t mask_count_budget = std::int64_t{1} << 22;
  /// Sample the attention weights (Stats::patterns) in every step whose number is a multiple of this; 0: never. A call
  /// that is sampled is read after it ran, on its thread, which waits for the device.
  std::int64_t patterns = 0;
  /// In the same steps, find for each head which cheaper settings (a narrower dtype, fewer keys) keep the relative
  /// error of its output within this (Stats::tolerance); 0: do not. Needs `patterns`.
  double tolerance = 0;
  /// Query rows sampled of each head of a call, at most.
  std::int64_t pattern_rows = 64;
  /// Scores (a query and a key of a head) that a step may spend on patterns; what comes later in it is not sampled.
  std::int64_t pattern_budget = std::int64_t{1} << 27;
  /// How many of the last calls Stats::calls keeps one by one.
  std::size_t keep_calls = 0;
  /// Start in the constructor. False leaves the profiler stopped until start().
  bool start_now = true;

  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace headscope
