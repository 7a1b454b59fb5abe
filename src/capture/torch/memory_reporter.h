#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdint>

namespace headscope::capture::torch {

/// What we put into the PROFILER_STATE slot of a thread's debug info, to which torch's allocators report. torch
/// casts whatever lies there to the base class of its own profilers, so that it has to be one: a disabled one.
class MemoryReporter : public ::torch::profiler::impl::ProfilerStateBase {
 public:
  MemoryReporter()
      : ProfilerStateBase(::torch::profiler::impl::ProfilerConfig(::torch::profiler::impl::ProfilerState::Disabled)) {}

  [[nodiscard]] bool memoryProfilingEnabled() const final { return true; }
  ::torch::profiler::impl::ActiveProfilerType profilerType() final {
    return ::torch::profiler::impl::ActiveProfilerType::NONE;
  }
};

/// Hears of the allocations of one thread.
class AllocationListener {
 public:
  virtual void on_allocation(std::int64_t bytes, c10::Device device) noexcept = 0;

 protected:
  ~AllocationListener() = default;
};

/// True for the reporter of a scope (scope_memory.h).
bool reports_to_a_scope(const c10::DebugInfoBase& info) noexcept;

/// Makes the reporter of a scope tell `listener` too what this thread allocates; nullptr: nobody.
void listen(AllocationListener* listener) noexcept;

}  // namespace headscope::capture::torch
