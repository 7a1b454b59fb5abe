#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <array>
#include <cstdint>
#include <memory>

#include "capture/expected_allocations.h"

namespace headscope::capture::torch {

/// Counts what one thread allocates while an op runs. The PROFILER_STATE slot is ours only while a hooked op is
/// redispatched, and only if it is free or holds the reporter of a scope (scope_memory.h), which then hands on what
/// it is told.
class MemoryMeter {
 public:
  struct Reading {
    std::int64_t allocated_bytes = -1;  ///< −1: not measured
    std::int64_t peak_bytes = -1;
    /// Bytes allocated of each AllocationKind.
    std::array<std::int64_t, kAllocationKinds> by_kind{};

    [[nodiscard]] std::int64_t of(AllocationKind kind) const noexcept {
      return by_kind[static_cast<std::size_t>(kind)];
    }
  };

  /// Starts counting unless it runs already or another profiler holds the slot. True when it has started;
  /// stop() must follow on the same thread.
  bool start(const ExpectedAllocations& expected) noexcept;
  Reading stop() noexcept;

 private:
  class Reporter;
  std::shared_ptr<Reporter> reporter_;
  /// Debug info that holds the reporter alone: entering it allocates nothing.
  std::shared_ptr<c10::ThreadLocalDebugInfo> alone_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> before_;
  bool running_ = false;
  bool in_scope_ = false;
};

}  // namespace headscope::capture::torch
