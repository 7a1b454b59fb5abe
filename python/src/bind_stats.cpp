#include "headscope/stats.h"

#include <pybind11/stl.h>

#include <memory>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {

void bind_report(py::class_<Stats>& stats);

void bind_stats(py::module_& module) {
  py::class_<Stats> stats(module, "Stats", "A snapshot of a profiler; headscope.Stats wraps it.");
  stats.def("check", &Stats::check, py::arg("budget"), py::call_guard<py::gil_scoped_release>());
  bind_report(stats);
  module.attr("SCHEMA_VERSION") = Stats::kSchemaVersion;
}

}  // namespace headscope::python
