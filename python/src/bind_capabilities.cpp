#include "headscope/capabilities.h"

#include <vector>

#include "bindings.h"

namespace headscope::python {

void bind_capabilities(py::module_& module) {
  module.def("capabilities", [] {
    std::vector<Capability> found;
    {
      const py::gil_scoped_release release;
      found = capabilities();
    }
    py::list rows;
    for (const Capability& capability : found) {
      py::dict row;
      row["name"] = capability.name;
      row["available"] = capability.available;
      row["detail"] = capability.detail;
      rows.append(row);
    }
    return rows;
  });
}

}  // namespace headscope::python
