#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "headscope/export.h"
#include "headscope/stats.h"

namespace headscope {

/// How a recorded trace is read.
struct TraceOptions {
  /// Split every figure over the heads (Stats::heads).
  bool per_head = true;
  /// Longest query that still counts as a decode step.
  std::int64_t decode_max_q = 1;
  /// How many of the last calls Stats::calls keeps one by one.
  std::size_t keep_calls = 0;
  /// Called while the file is read, on the reading thread: bytes of the file that are done, and all of them.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

/// The attention in a trace of torch.profiler (Kineto's Chrome trace format, .json or .json.gz), as the same Stats that
/// a profiler gives. What a call is, which kernels are its own, and what the figures mean: docs/traces.md.
///
/// Times are the kernels' where the trace holds a device, else the ops' on the host. FLOPs and bytes need the shapes of
/// the ops (record_shapes=True), layers need the modules (with_modules=True or with_stack=True). Memory is not read.
///
/// Streams: in memory are the ops, launches and kernels, not the text. Throws Error, with the byte where reading ended,
/// for a file that cannot be read, is damaged, cut off, or no trace; events that cannot be used are counted in
/// Meta::trace.
HEADSCOPE_EXPORT Stats read_trace(const std::string& path, const TraceOptions& options = {});

}  // namespace headscope
