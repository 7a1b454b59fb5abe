#pragma once

#include <cstddef>
#include <string_view>

#include "timeline/trace/recorder.h"

namespace headscope::timeline::trace {

/// A field beside traceEvents that says something of the run: deviceProperties, distributedInfo,
/// baseTimeNanoseconds. Other fields are not looked at.
class Properties {
 public:
  /// Largest value that is looked at: the properties of thousands of devices, or process groups.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 24;

  [[nodiscard]] static bool wants(std::string_view key) noexcept;
  /// `value`: its JSON text. What is not of the expected form is passed over.
  static void take(std::string_view key, std::string_view value, Recorder& recorder);
};

}  // namespace headscope::timeline::trace
