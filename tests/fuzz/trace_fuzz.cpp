// libFuzzer: any bytes as a trace, plain or compressed. Only Error may come out, and what was read must be whole; then
// its attention calls.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "capture/trace/trace_calls.h"
#include "headscope/error.h"
#include "model/work.h"
#include "timeline/trace/trace_file.h"

namespace {

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_whole(const headscope::records::TraceRecording& recording) {
  std::uint64_t events = recording.ops.size() + recording.modules.size() + recording.steps.size() +
                         recording.device_activity.spans.size() + recording.device_activity.launches.size();
  for (const std::uint64_t skipped : recording.skipped) {
    events += skipped;
  }
  check(events == recording.events);
  std::size_t ops = 0;
  for (const headscope::records::TraceThread& thread : recording.threads) {
    ops += recording.ops_of(thread).size();
  }
  check(ops == recording.ops.size());
  for (const headscope::records::HostOp& op : recording.ops) {
    check(op.start_ns <= op.end_ns && op.thread < recording.threads.size() && op.name < recording.names.size());
    for (const headscope::records::TraceInput& input : recording.inputs_of(op)) {
      check(recording.sizes_of(input).size() == input.dims);
      check(recording.strides_of(input).size() == (input.has_strides ? input.dims : 0U));
      check(input.type < recording.names.size() && input.concrete < recording.names.size());
    }
  }
}

void check_calls(const headscope::capture::trace::TraceCalls& calls) {
  for (std::size_t at = 0; at < calls.calls.size(); ++at) {
    const headscope::records::AttentionCall& call = calls.calls[at].call;
    check(call.call_id == at + 1 && call.op != nullptr && call.forward_call_id <= calls.calls.size());
    check(!calls.calls[at].ops.empty());
    headscope::model::cost(call, 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace trace = headscope::timeline::trace;
  const auto source = trace::plain_text_of(
      std::make_unique<trace::MemorySource>(std::string_view(reinterpret_cast<const char*>(data), size)));
  try {
    const headscope::records::TraceRecording recording = trace::read_trace(*source, {.max_event_bytes = 4096});
    check_whole(recording);
    check_calls(headscope::capture::trace::calls_of(recording));
  } catch (const headscope::Error&) {
    return 0;  // the usual end
  }
  return 0;
}
