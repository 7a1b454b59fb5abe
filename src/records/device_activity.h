#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "records/attention_call.h"
#include "records/host_span.h"

/// What ran on a device, as the device clock (CUPTI) or a recorded trace tells it.
namespace headscope::records {

/// Where a node of a CUDA graph was captured.
struct Capture {
  std::uint64_t op = 0;      ///< that was open on the thread then; 0: none
  std::uint64_t after = 0;   ///< newest op of the process by then; 0: it is not known where
  std::uint64_t thread = 0;  ///< the operating system's id

  [[nodiscard]] bool known() const noexcept { return after != 0; }
  friend bool operator==(const Capture&, const Capture&) = default;
};

/// A kernel, copy or fill on a device's stream.
struct DeviceSpan {
  enum class Kind : std::uint8_t { kKernel, kMemcpy, kMemset };

  Kind kind = Kind::kKernel;
  Device device;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  /// Of the API call that launched it; 0: unknown. Not unique: one graph launch has many kernels.
  std::uint32_t correlation = 0;
  std::uint32_t graph = 0;       ///< executable graph it ran in; 0: none
  std::uint64_t graph_node = 0;  ///< 0: none
  Capture capture;               ///< of its node
  /// Both 0 where the device did not time it. Same clock as the calls of the recording.
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int64_t bytes = 0;  ///< of a copy or fill
  std::string_view name;   ///< lives as long as the recording (a process's own: for ever)

  [[nodiscard]] bool timed() const noexcept { return end_ns > start_ns; }
};

/// The API call that put work on a stream.
struct Launch {
  std::uint32_t correlation = 0;
  std::uint64_t thread = 0;  ///< as the recording numbers threads; the operating system's id of a process's own
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  /// Op that was open on the thread (CallObserver's id); 0: none, or the recording has no such ids.
  std::uint64_t op = 0;
  bool of_graph = false;  ///< launched a whole graph
};

/// When a hooked op ran, for launches of a recording that has no such ids.
struct OpSpan {
  std::uint64_t op = 0;             ///< CallObserver's id
  std::uint64_t thread = 0;         ///< as the recording numbers threads
  std::uint64_t system_thread = 0;  ///< the operating system's id
  HostSpan span;                    ///< no end: it did not end while the recording ran
};

/// What a device did while a profiler or a recording ran. In no order.
struct DeviceActivity {
  std::vector<DeviceSpan> spans;
  std::vector<Launch> launches;
  std::vector<Capture> captures;  ///< of the nodes that will be spans when their graph runs, one each
  std::uint64_t dropped = 0;      ///< records that the source lost
  std::uint64_t untimed = 0;      ///< spans without times
};

}  // namespace headscope::records
