#include "headscope/report.h"

#include <string>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

py::object to_dict(const Stats& self) {
  Value value;
  {
    const py::gil_scoped_release release;
    value = to_value(self);
  }
  return value_to_python(value);
}

std::string to_table(const Stats& self, const py::object& width, const py::object& heads_of,
                     const py::object& max_rows) {
  TextOptions options;
  options.width = static_cast<std::size_t>(to_count("width", width));
  options.max_rows = static_cast<std::size_t>(to_count("max_rows", max_rows));
  options.heads_of = to_text_argument("heads_of", heads_of);
  const py::gil_scoped_release release;
  return to_text(self, options);
}

}  // namespace

void bind_report(py::class_<Stats>& stats) {
  const TextOptions defaults;
  stats.def("to_dict", &to_dict)
      .def("to_json", &to_json, py::arg("indent") = 2, py::call_guard<py::gil_scoped_release>())
      .def("to_text", &to_table, py::kw_only(), py::arg("width") = defaults.width,
           py::arg("heads_of") = defaults.heads_of, py::arg("max_rows") = defaults.max_rows);
}

}  // namespace headscope::python
