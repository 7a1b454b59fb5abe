#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headscope/export.h"

/// Beside torch's own profiler. It and headscope want the same two things, of which there is one each: CUPTI, and
/// a thread's place for memory reports. torch's profiler comes first; what it recorded then times the calls. The
/// Python package does all this by itself; a C++ program calls these functions around each profiler of torch.
namespace headscope {

/// What torch's profiler recorded of a device: one of its events.
struct TorchProfilerEvent {
  enum class Kind : std::uint8_t {
    kLaunch,  ///< an API call on the host (cudaLaunchKernel)
    kKernel,
    kMemcpy,
    kMemset,
  };

  Kind kind = Kind::kKernel;
  std::string name;
  /// Of the API call, and of what it put on the device.
  std::uint32_t correlation = 0;
  /// Of a launch: the number that at::RecordFunction::currentThreadId() has on its thread.
  std::uint64_t thread = 0;
  std::int32_t device = 0;    ///< index of the CUDA device
  std::uint32_t stream = 0;   ///< its number in the recording
  std::int64_t start_ns = 0;  ///< since 1970, UTC
  std::int64_t end_ns = 0;
};

/// An attention call made while torch's profiler ran, for a track of its own in the exported trace.
struct TorchProfilerCall {
  std::string layer;      ///< empty: it has no name
  std::string variant;    ///< "sdpa_flash"
  std::string direction;  ///< "forward", "backward", "recompute"
  std::uint32_t thread = 0;
  std::int64_t start_ns = 0;  ///< of its op on the host, since 1970, UTC
  std::int64_t end_ns = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t head_dim = 0;
  std::optional<std::uint64_t> flops;
  std::optional<std::uint64_t> bytes;
};

/// The program promises to call the functions below whenever a profiler of torch starts and ends. Without this promise
/// a profiler with the device clock that starts beside a running profiler of torch goes without, and ops captured into
/// CUDA graphs are not learnt: that takes CUPTI's subscriber, which a profiler of torch must find free.
HEADSCOPE_EXPORT void follow_torch_profiler() noexcept;

/// Before a profiler of torch starts: gives up CUPTI, and this thread's memory reports of Memory::kScope.
HEADSCOPE_EXPORT void torch_profiler_starts() noexcept;

/// Calls wait for what torch's profiler records: torch_profiler_ended() needs its events.
HEADSCOPE_EXPORT bool torch_profiler_is_awaited() noexcept;

/// After it ended. Times the calls made meanwhile by `events`, and takes CUPTI back. Returns those calls, of the
/// profilers of headscope that ran, the first 65,536 of them. Throws std::bad_alloc.
HEADSCOPE_EXPORT std::vector<TorchProfilerCall> torch_profiler_ended(const std::vector<TorchProfilerEvent>& events);

}  // namespace headscope
