#include "headscope/trace.h"

#include <pybind11/functional.h>

#include <string>
#include <utility>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

Stats read(const std::string& path, const py::object& per_head, const py::object& decode_max_q,
           const py::object& keep_calls, std::function<void(std::uint64_t, std::uint64_t)> progress) {
  TraceOptions options;
  options.per_head = to_bool("per_head", per_head);
  options.decode_max_q = to_int("decode_max_q", decode_max_q);
  options.keep_calls = static_cast<std::size_t>(to_count("keep_calls", keep_calls));
  options.progress = std::move(progress);
  const py::gil_scoped_release release;  // pybind11 takes it back around `progress`
  return read_trace(path, options);
}

}  // namespace

void bind_trace(py::module_& module) {
  const TraceOptions defaults;
  module.def("read_trace", &read, py::arg("path"), py::kw_only(), py::arg("per_head") = defaults.per_head,
             py::arg("decode_max_q") = defaults.decode_max_q, py::arg("keep_calls") = defaults.keep_calls,
             py::arg("progress") = py::none());
}

}  // namespace headscope::python
