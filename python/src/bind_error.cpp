#include "headscope/error.h"

#include "bindings.h"

namespace headscope::python {

void bind_error(py::module_& module) {
  auto error = py::register_exception<Error>(module, "Error", PyExc_RuntimeError);
  error.attr("__module__") = "headscope";  // where users import it from
  error.attr("__doc__") = "Wrong use of headscope. The message says what was wrong and what to do instead.";
}

}  // namespace headscope::python
