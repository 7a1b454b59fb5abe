#include "headscope/torch_profiler.h"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

using Event = std::tuple<py::str, std::string, std::uint32_t, std::uint64_t, std::int32_t, std::uint32_t, std::int64_t,
                         std::int64_t>;

constexpr std::array<Choice<TorchProfilerEvent::Kind>, 4> kKinds = {{
    {"launch", TorchProfilerEvent::Kind::kLaunch},
    {"kernel", TorchProfilerEvent::Kind::kKernel},
    {"memcpy", TorchProfilerEvent::Kind::kMemcpy},
    {"memset", TorchProfilerEvent::Kind::kMemset},
}};

py::object text_or_none(const std::string& text) { return text.empty() ? py::object(py::none()) : py::str(text); }

py::list ended(const std::vector<Event>& given) {
  std::vector<TorchProfilerEvent> events;
  events.reserve(given.size());
  for (const auto& [kind, name, correlation, thread, device, stream, start_ns, end_ns] : given) {
    events.push_back({to_choice("kind", kind, kKinds), name, correlation, thread, device, stream, start_ns, end_ns});
  }
  std::vector<TorchProfilerCall> calls;
  {
    const py::gil_scoped_release release;
    calls = torch_profiler_ended(events);
  }
  py::list result;
  for (const TorchProfilerCall& call : calls) {
    py::dict entry;
    entry["layer"] = text_or_none(call.layer);
    entry["variant"] = call.variant;
    entry["direction"] = call.direction;
    entry["thread"] = call.thread;
    entry["start_ns"] = call.start_ns;
    entry["end_ns"] = call.end_ns;
    entry["batch"] = call.batch;
    entry["heads"] = call.heads;
    entry["q_len"] = call.q_len;
    entry["kv_len"] = call.kv_len;
    entry["head_dim"] = call.head_dim;
    entry["flops"] = call.flops;
    entry["bytes"] = call.bytes;
    result.append(std::move(entry));
  }
  return result;
}

}  // namespace

void bind_torch_profiler(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("follow_torch_profiler", &follow_torch_profiler);
  module.def("torch_profiler_starts", &torch_profiler_starts, Unlocked());
  module.def("torch_profiler_is_awaited", &torch_profiler_is_awaited, Unlocked());
  module.def("torch_profiler_ended", &ended, py::arg("events"));
}

}  // namespace headscope::python
