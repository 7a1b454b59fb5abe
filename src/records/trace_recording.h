#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "records/device_activity.h"
#include "records/name_table.h"

/// What a recorded trace (torch.profiler, Kineto) holds of ops, modules, steps and devices. Times are the trace's own
/// microseconds, as whole nanoseconds.
namespace headscope::records {

/// One argument of a recorded op.
struct TraceInput {
  std::uint32_t type = 0;      ///< name: "c10::BFloat16", "Scalar", "TensorList"; 0: not recorded
  std::uint32_t concrete = 0;  ///< name: the value as text ("True", "[1, 2]", "0.1"); 0: not recorded, or a tensor
  std::uint32_t sizes = 0;     ///< where its sizes begin in `integers`; strides follow them
  std::uint8_t dims = 0;       ///< of a tensor; 0 also for scalars and lists
  bool has_strides = false;
};

/// An op that ran on a host thread.
struct HostOp {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  /// Shared by a forward op and its autograd node; −1: none.
  std::int64_t sequence = -1;
  /// "External id" of the trace. No join key to kernels: older traces give them another number.
  std::uint64_t external_id = 0;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;  ///< index into `threads`
  /// Of a backward's node: torch's own number (from 1) of the thread that ran the forward; 0: a forward, or not
  /// recorded.
  std::uint32_t forward_thread = 0;
  std::uint32_t first_input = 0;
  std::uint16_t input_count = 0;
  /// The trace has its inputs, though ReadOptions may not have asked for them.
  bool has_inputs = false;

  [[nodiscard]] bool encloses(const HostOp& other) const noexcept {
    return thread == other.thread && start_ns <= other.start_ns && other.start_ns < end_ns;
  }
};

/// One forward of an nn.Module, as with_modules or with_stack records it.
struct ModuleSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t id = -1;         ///< "Python id"; −1: none
  std::int64_t parent_id = -1;  ///< of the Python call around it, which need not be a module's
  std::int64_t module_id = -1;  ///< "Python module id"; −1: none
  std::uint32_t name = 0;       ///< "BertLayer_0", without "nn.Module: "
  std::uint32_t thread = 0;
};

/// A ProfilerStep span.
struct StepSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t number = 0;
  std::uint32_t thread = 0;
};

/// A host thread, with its ops as a range of `ops`.
struct TraceThread {
  std::int64_t process = 0;
  std::int64_t id = 0;
  std::size_t first_op = 0;
  std::size_t op_count = 0;
};

enum class TracePlatform : std::uint8_t { kUnknown, kCuda, kRocm, kXpu };

/// A device that the trace describes.
struct TraceDevice {
  std::int64_t id = 0;
  std::string name;
};

/// Why an event of a trace was left out.
enum class SkipReason : std::uint8_t {
  kFlow,            ///< arrows between events
  kOtherPhase,      ///< metadata, counters, instants, begin and end events
  kOtherCategory,   ///< complete events that say nothing of ops or devices
  kPythonFunction,  ///< Python calls that are no module's forward
  kHostCall,        ///< API calls that put no work on a device
  kMalformed,       ///< no object, or one that is no JSON
  kNoTime,          ///< no number as time, or one beyond 292 years
  kNoThread,        ///< process or thread is no number
  kNegativeDuration,
  kTooLarge,  ///< more text than ReadOptions allow for one event
  kCount,
};
inline constexpr std::size_t kSkipReasons = static_cast<std::size_t>(SkipReason::kCount);

struct TraceRecording {
  NameTable names;
  std::vector<TraceThread> threads;
  /// By thread, then in order of time, an op before those inside it.
  std::vector<HostOp> ops;
  std::vector<TraceInput> inputs;
  std::vector<std::int64_t> integers;
  std::vector<ModuleSpan> modules;  ///< ordered as `ops`
  std::vector<StepSpan> steps;      ///< in order of time
  /// `Launch::thread` is an index into `threads`.
  DeviceActivity device_activity;
  std::vector<TraceDevice> devices;
  TracePlatform platform = TracePlatform::kUnknown;

  std::int64_t rank = -1;        ///< −1: not recorded
  std::int64_t world_size = -1;  ///< −1: not recorded
  /// What the trace's times count from, since 1970; 0: not recorded (older traces count from 1970 themselves).
  std::int64_t base_time_ns = 0;
  /// First start and last end among what was recorded; 0 both when nothing was.
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  std::uint64_t events = 0;  ///< in the file
  std::array<std::uint64_t, kSkipReasons> skipped{};

  [[nodiscard]] std::span<const HostOp> ops_of(const TraceThread& thread) const {
    return std::span(ops).subspan(thread.first_op, thread.op_count);
  }
  [[nodiscard]] std::span<const TraceInput> inputs_of(const HostOp& op) const {
    return std::span(inputs).subspan(op.first_input, op.input_count);
  }
  [[nodiscard]] std::span<const std::int64_t> sizes_of(const TraceInput& input) const {
    return std::span(integers).subspan(input.sizes, input.dims);
  }
  /// Empty where strides were not recorded.
  [[nodiscard]] std::span<const std::int64_t> strides_of(const TraceInput& input) const {
    return std::span(integers).subspan(input.sizes + (input.has_strides ? input.dims : 0U),
                                       input.has_strides ? input.dims : 0U);
  }
  [[nodiscard]] std::uint64_t skipped_for(SkipReason reason) const noexcept {
    return skipped[static_cast<std::size_t>(reason)];
  }
};

}  // namespace headscope::records
