#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "correlate/kernel_names.h"
#include "records/device_activity.h"
#include "records/device_work.h"
#include "records/host_span.h"

namespace headscope::correlate {

/// Where on the host a call launched its work.
struct CallWindow {
  std::uint64_t thread = 0;  ///< as Launch::thread
  /// Of a fused call its op, of an eager chain its products and its softmax.
  std::vector<records::HostSpan> ops;
  /// First to last of `ops`: what is launched between them is glue.
  records::HostSpan whole;
  /// The ids of its ops, where launches carry such ids; `ops` is empty then.
  records::OpRange device_ops;
  /// Of a call that was captured into a CUDA graph: nodes that are its work.
  std::uint64_t captured_nodes = 0;
  /// The op does other work too (cache writes), so that only kernels known as attention count as such.
  bool holds_other_work = false;
};

/// A kernel of attention that no call launched, as far as is known.
struct LoneKernel {
  const records::DeviceSpan* span = nullptr;
  KernelName name;
  bool in_graph = false;
};

/// A captured call that a launch of its graph ran once.
struct Replay {
  std::uint32_t call = 0;  ///< index of the captured window
  std::shared_ptr<const records::DeviceWork> work;
  std::vector<const records::DeviceSpan*> spans;  ///< in order of their start
  bool all_there = false;                         ///< one span for each node
};

struct Correlated {
  /// One a window; nullptr where it launched nothing.
  std::vector<std::shared_ptr<const records::DeviceWork>> calls;
  std::vector<LoneKernel> lone;  ///< in order of their start
  std::vector<Replay> replays;
  /// Kernels, copies and fills whose launch is not known.
  std::uint64_t spans_without_launch = 0;
  /// Nothing ran, between the first and the last span of a device; summed over the devices. std::nullopt without
  /// timed spans.
  std::optional<std::int64_t> device_idle_ns;
};

/// Gives each call the kernels, copies and fills that its thread launched inside its window: by correlation id of the
/// launch, never by overlap in time. The innermost window owns a launch. Kernels of a launched graph belong to no
/// window, but to the one of `captured` that has the op in which their node was captured: a replay for each launch.
/// O(n log n) in spans, launches and windows, which may come in any order.
Correlated correlate(std::span<const CallWindow> windows, const records::DeviceActivity& activity,
                     std::span<const CallWindow> captured = {});

}  // namespace headscope::correlate
