#pragma once

#include <cstdint>

#include "records/attention_call.h"

namespace headscope::records {

/// What the hooks need to know of the running profilers, in one relaxed load.
struct Watch {
  std::uint32_t sessions = 0;  ///< bit a slot; 0: nobody watches, the hook only redispatches
  bool memory = false;
  bool eager = false;
  bool detail = false;
  bool device = false;     ///< a device clock runs
  bool sampled = false;    ///< this step's attention weights are sampled
  bool tolerance = false;  ///< and what cheaper settings would do to them
};

/// Where captured calls go. Implemented beside the profilers, called by the hooks.
/// No member locks, allocates (after a thread's first call) or throws.
class CallSink {
 public:
  virtual ~CallSink() = default;
  /// Who watches this thread.
  virtual Watch watch() noexcept = 0;
  /// A finished call; `sessions` is what watch() said when it began.
  virtual void submit(AttentionCall&& call) noexcept = 0;
  /// The calling thread's index and number of unnamed forward calls so far, which it advances.
  virtual LayerRef next_unnamed_layer() noexcept = 0;
  /// The same index without advancing anything: LayerRef::thread of a call with a label.
  virtual std::uint32_t this_thread() noexcept { return 0; }
  /// Takes up to `elements` from the step's mask budget; false when it is used up.
  virtual bool spend_mask_budget(std::int64_t elements) noexcept = 0;
  /// Rows that a sampled head may have.
  virtual std::int64_t pattern_rows() noexcept { return 0; }
  /// Takes up to `scores` from the step's budget of sampled scores; false when it is used up.
  virtual bool spend_pattern_budget(std::int64_t scores) noexcept {
    static_cast<void>(scores);
    return false;
  }
  /// Counters of Diagnostics.
  virtual void count_failed_call() noexcept = 0;
  virtual void count_hook_error() noexcept = 0;
  virtual void count_unfinished_chains(std::uint64_t chains) noexcept = 0;
  /// One hooked call in 64 is timed; own nanoseconds outside the redispatch.
  virtual void count_overhead(std::int64_t sampled_ns) noexcept = 0;
  virtual void count_sampling(std::int64_t ns) noexcept { static_cast<void>(ns); }
};

}  // namespace headscope::records
