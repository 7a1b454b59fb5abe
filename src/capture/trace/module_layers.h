#pragma once

#include <cstdint>
#include <vector>

#include "records/trace_recording.h"

namespace headscope::capture::trace {

/// The innermost nn.Module around a moment of a thread.
class ModuleLayers {
 public:
  explicit ModuleLayers(const records::TraceRecording& recording);

  /// Label (intern_layer) of the innermost module that encloses the span; 0: none does. Any order of calls.
  std::uint32_t label(std::uint32_t thread, std::int64_t start_ns, std::int64_t end_ns);

 private:
  struct Node {
    const records::ModuleSpan* span = nullptr;
    std::size_t parent = kNone;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  const records::TraceRecording& recording_;
  std::vector<Node> nodes_;            // as TraceRecording::modules
  std::vector<std::uint32_t> labels_;  // by name; 0: not interned
};

}  // namespace headscope::capture::trace
