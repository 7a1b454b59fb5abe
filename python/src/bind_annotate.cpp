#include "headscope/annotate.h"

#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

constexpr std::array kLayouts{Choice<Layout>{"bhsd", Layout::kBHSD}, Choice<Layout>{"bshd", Layout::kBSHD},
                              Choice<Layout>{"thd", Layout::kTHD}, Choice<Layout>{"hsd", Layout::kHSD}};

std::uint32_t intern(const py::object& name, std::optional<std::int64_t> index, std::optional<std::int64_t> heads,
                     std::optional<std::int64_t> model_kv_heads, bool cross) {
  return intern_layer({to_text_argument("name", name), index, heads, model_kv_heads, cross});
}

AttentionOpSpec spec_from_python(const py::kwargs& keywords) {
  AttentionOpSpec spec;
  for (const auto& [key, value] : keywords) {
    const auto name = key.cast<std::string>();
    std::optional<std::string> text;
    if (name == "layout") {
      spec.layout = to_choice(name, value, kLayouts);
      continue;
    }
    if (name == "causal_lower_right") {
      spec.causal_lower_right = to_bool(name, value);
      continue;
    }
    if (name == "backward") {
      spec.backward = to_bool(name, value);
      continue;
    }
    if (!value.is_none()) {
      text = to_text_argument(name, value);
    }
    if (name == "mask") {
      spec.mask = text;
    } else if (name == "causal") {
      spec.causal = text;
    } else if (name == "window_left") {
      spec.window_left = text;
    } else if (name == "window_right") {
      spec.window_right = text;
    } else if (name == "cu_seqlens_q") {
      spec.cu_seqlens_q = text;
    } else if (name == "cu_seqlens_k") {
      spec.cu_seqlens_k = text;
    } else if (name == "seqused_k") {
      spec.seqused_k = text;
    } else if (name == "block_table") {
      spec.block_table = text;
    } else if (name == "op") {
      spec.op = to_text_argument(name, value);
    } else if (name == "variant") {
      spec.variant = to_text_argument(name, value);
    } else if (name == "query") {
      spec.query = to_text_argument(name, value);
    } else if (name == "key") {
      spec.key = to_text_argument(name, value);
    } else if (name == "value") {
      spec.value = to_text_argument(name, value);
    } else {
      throw_unknown_keyword("register_attention_op()", name);
    }
  }
  return spec;
}

}  // namespace

void bind_annotate(py::module_& module) {
  module.def("intern_layer", &intern, py::arg("name"), py::arg("index") = py::none(), py::arg("heads") = py::none(),
             py::arg("model_kv_heads") = py::none(), py::arg("cross") = false);
  module.def("push_layer", &push_layer, py::arg("layer"));
  module.def("pop_layer", &pop_layer);
  module.def("register_attention_op", [](const py::kwargs& keywords) {
    const AttentionOpSpec spec = spec_from_python(keywords);
    const py::gil_scoped_release release;
    register_attention_op(spec);
  });
}

}  // namespace headscope::python
