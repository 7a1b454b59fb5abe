#include "headscope/torch_profiler.h"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <tuple>
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

void ended(const std::vector<Event>& given) {
  std::vector<TorchProfilerEvent> events;
  events.reserve(given.size());
  for (const auto& [kind, name, correlation, thread, device, stream, start_ns, end_ns] : given) {
    events.push_back({to_choice("kind", kind, kKinds), name, correlation, thread, device, stream, start_ns, end_ns});
  }
  const py::gil_scoped_release release;
  torch_profiler_ended(events);
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
