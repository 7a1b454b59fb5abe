#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "timeline/trace/trace_file.h"

/// Small traces as text, for tests of the trace reader.
namespace headscope::test_support {

/// `[{...},{...}]` inside of an object, as torch.profiler writes it.
inline std::string trace_of(const std::vector<std::string>& events, const std::string& fields = {}) {
  std::string text = "{" + fields + "\"traceEvents\":[";
  for (std::size_t i = 0; i < events.size(); ++i) {
    text += (i > 0 ? ",\n" : "") + events[i];
  }
  return text + "]}";
}

/// A complete event on thread 1 of process 1; times in microseconds as text.
inline std::string an_event(const std::string& category, const std::string& name, const std::string& start,
                            const std::string& duration, const std::string& args = {}) {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":1,"ts":)" + start +
         ",\"dur\":" + duration + ",\"args\":{" + args + "}}";
}

inline records::TraceRecording recording_of(std::string_view text, const timeline::trace::ReadOptions& options = {}) {
  timeline::trace::MemorySource source(text);
  return timeline::trace::read_trace(source, options);
}

}  // namespace headscope::test_support
