#include "headscope/metric.h"

#include "bindings.h"

namespace headscope::python {

void bind_metric(py::module_& module) {
  module.def("metrics", [] {
    py::list rows;
    for (const Metric& metric : metrics()) {
      py::dict row;
      row["id"] = metric.id;
      row["unit"] = metric.unit;
      row["heading"] = metric.heading;
      row["description"] = metric.description;
      row["provenance"] = to_string(metric.provenance);
      rows.append(row);
    }
    return rows;
  });
}

}  // namespace headscope::python
