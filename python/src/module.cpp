#include <pybind11/pybind11.h>

#include "bindings.h"

PYBIND11_MODULE(_core, module) {
  namespace python = headscope::python;
  module.doc() = "C++ core of headscope; use the names of the package instead.";
  python::bind_error(module);
  python::bind_budget(module);
  python::bind_stats(module);
  python::bind_profiler(module);
  python::bind_torch_profiler(module);
  python::bind_annotate(module);
  python::bind_capabilities(module);
  python::bind_metric(module);
  python::bind_trace(module);
  python::bind_kv_cache(module);
}
