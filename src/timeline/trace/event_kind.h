#pragma once

#include <cstdint>
#include <string_view>

#include "records/trace_recording.h"

namespace headscope::timeline::trace {

/// What becomes of an event.
enum class EventKind : std::uint8_t { kHostOp, kModule, kStep, kLaunch, kKernel, kMemcpy, kMemset, kSkipped };

struct Verdict {
  EventKind kind = EventKind::kSkipped;
  records::SkipReason reason = records::SkipReason::kOtherCategory;  ///< of kSkipped
};

/// The fields that decide it.
struct EventHead {
  std::string_view phase;
  std::string_view category;
  std::string_view name;  ///< escapes as they stand
};

Verdict verdict_on(const EventHead& head) noexcept;

/// Reads the head from the front of an event's text, where torch writes it, without parsing the rest. False when it
/// is not all there; `head` then holds nothing of use.
bool read_head(std::string_view event, EventHead& head) noexcept;

/// Launches a whole graph.
bool is_graph_launch(std::string_view name) noexcept;

/// "nn.Module: BertLayer_0" → "BertLayer_0"; empty for other names.
std::string_view module_name(std::string_view name) noexcept;

/// Whose API a call of cuda_runtime, cuda_driver, xpu_runtime, … belongs to.
records::TracePlatform platform_of_call(std::string_view name) noexcept;
/// Whose device it is, by its name.
records::TracePlatform platform_of_device(std::string_view name) noexcept;

}  // namespace headscope::timeline::trace
