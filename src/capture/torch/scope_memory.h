#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "records/attention_call.h"

namespace headscope::capture::torch {

class ScopeMeter;
class ScopeReporter;

/// The peak of allocated memory over one profiler's scope: of what the thread that starts it allocates and frees,
/// and the backward passes that it starts. While the scope goes on, a reporter lies in the PROFILER_STATE slot of
/// that thread. Where torch's own profiler holds the slot, or takes it (leave_memory_reports), nothing is
/// measured from then on, and reading() says so. The hold on the slot ends with stop() on the thread that started
/// it; ended elsewhere, the reporter stays there and hears to no effect.
///
/// All members may be called from any thread at any time.
class ScopeMemory {
 public:
  struct DevicePeak {
    records::Device device;
    /// The largest rise above the level at a start.
    std::int64_t peak_bytes = 0;
  };
  struct Reading {
    std::vector<DevicePeak> devices;
    /// Why the figures are not those of the whole scope; empty when they are.
    std::string incomplete;
  };

  ScopeMemory();
  ScopeMemory(const ScopeMemory&) = delete;
  ScopeMemory& operator=(const ScopeMemory&) = delete;
  ~ScopeMemory() { stop(); }

  /// No effect while started.
  void start() noexcept;
  /// No effect when stopped.
  void stop() noexcept;
  /// Forgets the peaks; the level from here on counts.
  void reset() noexcept;
  [[nodiscard]] Reading reading() const;

 private:
  std::mutex mutex_;  // of reporter_
  std::shared_ptr<ScopeMeter> meter_;
  std::shared_ptr<ScopeReporter> reporter_;
};

/// Takes a scope's reporter out of this thread's slot, for a profiler of torch that is about to start. False when
/// there was none.
bool leave_memory_reports() noexcept;

}  // namespace headscope::capture::torch
