#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "records/call_observer.h"
#include "records/device_activity.h"

/// When and for which op a device ran its kernels.
namespace headscope::timeline {

/// Why a device clock does not run.
enum class Reason : std::uint8_t {
  kNone,           ///< it runs
  kNotStarted,     ///< or stopped
  kForked,         ///< this process is a child of one that traced; CUPTI does not survive a fork
  kTorchProfiler,  ///< torch.profiler runs, and CUPTI serves one client
  kNoDriver,       ///< no driver in this process: nothing used CUDA
  kDriverFailed,
  kNoDevice,
  kNoLibrary,            ///< no libcupti found, or it could not be loaded
  kIncompatibleLibrary,  ///< libcupti lacks a function that is needed
  kBusy,                 ///< another tool holds CUPTI
  kCallFailed,           ///< a call that is needed failed
};

/// "no_driver", for machines; `Status::text` is for people.
std::string_view to_string(Reason reason) noexcept;

struct Status {
  Reason reason = Reason::kNotStarted;
  std::string text;  ///< empty when it runs
  /// What is missing or may be wrong although it runs, or ran.
  std::vector<std::string> warnings;

  [[nodiscard]] bool enabled() const noexcept { return reason == Reason::kNone; }
};

/// What the caller knows and the device clock cannot see.
struct Situation {
  /// torch.profiler runs at this moment.
  bool torch_profiler_running = false;
  /// This process used torch.profiler before: it may hold CUPTI's subscriber though it is idle.
  bool torch_profiler_used = false;
  /// Learn which op captured each node of a CUDA graph. Holds CUPTI's subscriber while the clock runs, and a
  /// torch.profiler whose first use falls into that time sees no device at all.
  bool graphs = false;
  /// First number of torch.version.cuda; 0: not known.
  int cuda_major = 0;
  /// Folders that may hold nvidia/…/lib (site-packages), beside the one that torch was loaded from.
  std::vector<std::string> package_folders;
};

/// A clock of what devices run. Every member may be called from any thread; nothing throws what a user's step
/// would see, but std::bad_alloc.
class DeviceTimeline : public records::CallObserver {
 public:
  /// May be tried again when it failed; does nothing while it runs.
  virtual Status start(const Situation& situation) = 0;
  [[nodiscard]] virtual Status status() const = 0;

  /// Brings in what devices have finished. Waits for no device: synchronise first for a complete answer.
  virtual void flush() = 0;

  /// Moves out what has arrived, in CLOCK_MONOTONIC nanoseconds. Each span comes once. While the clock runs a
  /// span waits for its launch, up to two calls of take(); a launch comes with its spans, again if more follow.
  [[nodiscard]] virtual records::DeviceActivity take() = 0;

  /// `take_some` is called on a thread of the clock's own, with no lock held, when many spans wait for take(): replays
  /// of CUDA graphs make spans without any call that could ask for them.
  virtual void when_many_spans(void (*take_some)()) noexcept = 0;
  static constexpr std::size_t kManySpans = std::size_t{1} << 17;

  /// Flushes and ends the session; take() then gives the rest.
  virtual void stop() = 0;
};

}  // namespace headscope::timeline
