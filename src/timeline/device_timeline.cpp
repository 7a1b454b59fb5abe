#include "timeline/device_timeline.h"

namespace headscope::timeline {

std::string_view to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kNotStarted:
      return "not_started";
    case Reason::kForked:
      return "forked";
    case Reason::kTorchProfiler:
      return "torch_profiler";
    case Reason::kNoDriver:
      return "no_driver";
    case Reason::kDriverFailed:
      return "driver_failed";
    case Reason::kNoDevice:
      return "no_device";
    case Reason::kNoLibrary:
      return "no_library";
    case Reason::kIncompatibleLibrary:
      return "incompatible_library";
    case Reason::kBusy:
      return "busy";
    case Reason::kCallFailed:
      return "call_failed";
  }
  return "unknown";
}

}  // namespace headscope::timeline
