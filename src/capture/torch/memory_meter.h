#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace headscope::capture::torch {

/// Size of one call's score matrices: allocations of `elements` elements of `element_size` bytes, or of 4
/// (an upcast to fp32), are taken for one. 0 elements: none are looked for.
struct ScoreSize {
  std::int64_t elements = 0;
  std::int64_t element_size = 0;
};

/// Counts what one thread allocates while an op runs: torch's allocators report to the object in the
/// PROFILER_STATE slot of the thread's debug info. torch casts whatever lies in that slot to its own
/// profiler's type, so ours is there only while a hooked op is redispatched, and only if the slot is free.
class MemoryMeter {
 public:
  struct Reading {
    std::int64_t allocated_bytes = -1;  ///< −1: not measured
    std::int64_t peak_bytes = -1;
    std::int64_t score_bytes = -1;
  };

  /// Starts counting unless it runs already or another profiler holds the slot. True when it has started;
  /// stop() must follow on the same thread.
  bool start(ScoreSize scores) noexcept;
  Reading stop() noexcept;

 private:
  class Reporter;
  std::shared_ptr<Reporter> reporter_;
  /// Debug info that holds the reporter alone: entering it allocates nothing.
  std::shared_ptr<c10::ThreadLocalDebugInfo> alone_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> before_;
  bool running_ = false;
};

}  // namespace headscope::capture::torch
