#include "headscope/profiler.h"

#include <cstdint>
#include <memory>
#include <string>

#include <pybind11/stl.h>

#include "bindings.h"

namespace headscope::python {
namespace {

/// Other threads may need the GIL to leave a hooked op that stop() waits for.
struct StopWithoutGil {
  void operator()(AttentionProfiler* profiler) const noexcept {
    const py::gil_scoped_release release;
    delete profiler;
  }
};

using Holder = std::unique_ptr<AttentionProfiler, StopWithoutGil>;

}  // namespace

void bind_profiler(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<AttentionProfiler, Holder>(module, "Profiler", "headscope.AttentionProfiler wraps it.")
      .def(py::init([](const py::kwargs& keywords) {
        const Options options = options_from_python(keywords);
        const py::gil_scoped_release release;
        return Holder(new AttentionProfiler(options));
      }))
      .def("start", &AttentionProfiler::start, Unlocked())
      .def("stop", &AttentionProfiler::stop, Unlocked())
      .def("pause", &AttentionProfiler::pause, Unlocked())
      .def("resume", &AttentionProfiler::resume, Unlocked())
      .def("step", &AttentionProfiler::step, Unlocked())
      .def("reset", &AttentionProfiler::reset, py::arg("step_number") = 0, Unlocked())
      .def("name_by_order", &AttentionProfiler::name_by_order, Unlocked())
      .def("get_stats", &AttentionProfiler::get_stats, Unlocked())
      .def("take_window", &AttentionProfiler::take_window, Unlocked())
      .def(
          "add_stage",
          [](AttentionProfiler& profiler, const std::string& stage, std::int64_t time_ns) {
            profiler.add_stage(stage, Nanoseconds(time_ns));
          },
          py::arg("stage"), py::arg("time_ns"), Unlocked())
      .def_property_readonly("id", &AttentionProfiler::id)
      .def_property_readonly("running", &AttentionProfiler::running);
  module.attr("MAX_RUNNING") = AttentionProfiler::kMaxRunning;
}

}  // namespace headscope::python
