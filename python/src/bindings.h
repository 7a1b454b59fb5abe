#pragma once

#include <pybind11/pybind11.h>

#include "headscope/budget.h"
#include "headscope/options.h"
#include "headscope/value.h"

/// One function for each public header; module.cpp calls them in the order of their dependencies.
namespace headscope::python {

namespace py = pybind11;

void bind_error(py::module_& module);
void bind_annotate(py::module_& module);
void bind_budget(py::module_& module);
void bind_capabilities(py::module_& module);
void bind_kv_cache(py::module_& module);
void bind_metric(py::module_& module);
void bind_profiler(py::module_& module);
void bind_stats(py::module_& module);
void bind_torch_profiler(py::module_& module);
void bind_trace(py::module_& module);

/// dict, list, str, int, float, bool, None; integers stay exact.
py::object value_to_python(const Value& value);
/// Keywords named as the fields of Options.
Options options_from_python(const py::kwargs& keywords);
/// Keywords named as the fields of Budget; None is the same as leaving one out.
Budget budget_from_python(const py::kwargs& keywords);

}  // namespace headscope::python
