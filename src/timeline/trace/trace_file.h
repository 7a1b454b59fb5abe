#pragma once

#include <cstddef>
#include <string>

#include "records/trace_recording.h"
#include "timeline/trace/byte_source.h"
#include "timeline/trace/json_window.h"
#include "timeline/trace/recorder.h"

/// Reads traces of torch.profiler (Kineto's Chrome trace format), plain or compressed with gzip.
namespace headscope::timeline::trace {

struct ReadOptions {
  /// Sizes, types and values of inputs are most of a recording's size; name the ops whose inputs are of use.
  KeepInputs keep_inputs;
  Progress progress;
  /// Longer events are counted and left out. The largest seen in practice hold call stacks, below 1 MB.
  std::size_t max_event_bytes = std::size_t{16} << 20;
};

/// Streams the file: in memory are the recording, and one event's text. Events that cannot be used are counted in
/// `TraceRecording::skipped`. Throws Error, with the byte where reading ended, for a file that cannot be opened, is
/// damaged, cut off or no trace.
records::TraceRecording read_trace(const std::string& path, const ReadOptions& options = {});

/// The same from `source`, which holds plain text.
records::TraceRecording read_trace(ByteSource& source, const ReadOptions& options = {});

}  // namespace headscope::timeline::trace
