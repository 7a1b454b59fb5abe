#include "headscope/budget.h"

#include <pybind11/operators.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.h"
#include "convert.h"

namespace headscope::python {
namespace {

template <class E, std::size_t N>
constexpr std::array<Choice<E>, N> words_of(const E (&values)[N]) {
  std::array<Choice<E>, N> choices{};
  for (std::size_t i = 0; i < N; ++i) {
    choices[i] = {to_string(values[i]), values[i]};
  }
  return choices;
}

Phase to_phase(std::string_view name, py::handle value) {
  return to_choice(name, value,
                   words_of({Phase::kPrefill, Phase::kChunkedPrefill, Phase::kDecode, Phase::kEncode, Phase::kCross,
                             Phase::kMixed, Phase::kUnknown}));
}

Direction to_direction(std::string_view name, py::handle value) {
  return to_choice(name, value, words_of({Direction::kForward, Direction::kBackward, Direction::kRecompute}));
}

std::vector<std::string> to_words(std::string_view name, py::handle value) {
  if (py::isinstance<py::str>(value)) {
    return {value.cast<std::string>()};
  }
  if (!py::isinstance<py::iterable>(value)) {
    throw Error(std::string(name) + " must be a str or an iterable of str, not " + shown(value));
  }
  std::vector<std::string> words;
  for (const py::handle word : py::cast<py::iterable>(value)) {
    words.push_back(to_text_argument(name, word));
  }
  return words;
}

std::optional<std::string_view> word_of(const std::optional<Phase>& phase) {
  return phase ? std::optional(to_string(*phase)) : std::nullopt;
}

std::optional<std::string_view> word_of(const std::optional<Direction>& direction) {
  return direction ? std::optional(to_string(*direction)) : std::nullopt;
}

/// Budget(layer='*.3.*', max_total_flops=1000): the fields that differ from a default Budget.
py::str repr_of(const py::object& self) {
  const py::object plain = py::type::of(self)();
  py::list shown_fields;
  for (const py::handle field : self.attr("_fields")) {
    const py::object value = self.attr(field);
    if (!value.equal(plain.attr(field))) {
      shown_fields.append(py::str("{}={!r}").format(field, value));
    }
  }
  return py::str("Budget({})").format(py::str(", ").attr("join")(shown_fields));
}

}  // namespace

Budget budget_from_python(const py::kwargs& keywords) {
  Budget budget;
  for (const auto& [key, value] : keywords) {
    const auto name = key.cast<std::string>();
    if (value.is_none()) {
      continue;
    }
    if (name == "layer") {
      budget.layer = to_text_argument(name, value);
    } else if (name == "phase") {
      budget.phase = to_phase(name, value);
    } else if (name == "direction") {
      budget.direction = to_direction(name, value);
    } else if (name == "variant") {
      budget.variant = to_text_argument(name, value);
    } else if (name == "forbid_variants") {
      budget.forbid_variants = to_words(name, value);
    } else if (name == "min_gb_per_s") {
      budget.min_gb_per_s = to_double(name, value);
    } else if (name == "max_p50_us") {
      budget.max_p50_us = to_double(name, value);
    } else if (name == "max_call_flops") {
      budget.max_call_flops = to_count(name, value);
    } else if (name == "max_total_flops") {
      budget.max_total_flops = to_count(name, value);
    } else if (name == "max_step_bytes") {
      budget.max_step_bytes = to_count(name, value);
    } else if (name == "max_peak_bytes") {
      budget.max_peak_bytes = to_count(name, value);
    } else if (name == "max_score_bytes") {
      budget.max_score_bytes = to_count(name, value);
    } else if (name == "min_samples") {
      budget.min_samples = to_count(name, value);
    } else if (name == "allow_missing") {
      budget.allow_missing = to_bool(name, value);
    } else {
      throw_unknown_keyword("Budget()", name);
    }
  }
  return budget;
}

void bind_budget(py::module_& module) {
  py::class_<Budget> budget(module, "Budget");
  budget.def(py::init([](const py::kwargs& keywords) { return budget_from_python(keywords); }))
      .def_readonly("layer", &Budget::layer)
      .def_property_readonly("phase", [](const Budget& self) { return word_of(self.phase); })
      .def_property_readonly("direction", [](const Budget& self) { return word_of(self.direction); })
      .def_readonly("variant", &Budget::variant)
      .def_property_readonly("forbid_variants",
                             [](const Budget& self) { return py::tuple(py::cast(self.forbid_variants)); })
      .def_readonly("min_gb_per_s", &Budget::min_gb_per_s)
      .def_readonly("max_p50_us", &Budget::max_p50_us)
      .def_readonly("max_call_flops", &Budget::max_call_flops)
      .def_readonly("max_total_flops", &Budget::max_total_flops)
      .def_readonly("max_step_bytes", &Budget::max_step_bytes)
      .def_readonly("max_peak_bytes", &Budget::max_peak_bytes)
      .def_readonly("max_score_bytes", &Budget::max_score_bytes)
      .def_readonly("min_samples", &Budget::min_samples)
      .def_readonly("allow_missing", &Budget::allow_missing)
      .def("__repr__", [](const py::object& self) { return repr_of(self); })
      .def(py::self == py::self);
  budget.attr("_fields") = py::make_tuple("layer", "phase", "direction", "variant", "forbid_variants", "min_gb_per_s",
                                          "max_p50_us", "max_call_flops", "max_total_flops", "max_step_bytes",
                                          "max_peak_bytes", "max_score_bytes", "min_samples", "allow_missing");
  budget.attr("__hash__") = py::none();
  budget.doc() =
      "What a model's attention may cost. `layer` (a glob: `*`, `?`), `phase` and `direction` select rows; the other\n"
      "keywords limit each selected row, `max_total_*` and `max_step_*` their sum. Sizes are bytes, work is FLOPs,\n"
      "`max_p50_us` microseconds, `min_gb_per_s` 10**9 bytes a second. A budget that selects no row, or that meets an\n"
      "unknown figure, is a violation unless `allow_missing`. Raises Error for an unknown keyword or a wrong value.";

  py::class_<Violation>(module, "Violation", "One limit that was not kept.")
      .def_readonly("layer", &Violation::layer)
      .def_readonly("limit", &Violation::limit)
      .def_readonly("asked", &Violation::asked)
      .def_readonly("measured", &Violation::measured)
      .def("__str__",
           [](const Violation& self) {
             return py::str("{}: {} asked {}, measured {}").format(self.layer, self.limit, self.asked, self.measured);
           })
      .def("__repr__",
           [](const Violation& self) {
             return py::str("Violation(layer={!r}, limit={!r}, asked={!r}, measured={!r})")
                 .format(self.layer, self.limit, self.asked, self.measured);
           })
      .def(py::self == py::self)
      .attr("__hash__") = py::none();
}

}  // namespace headscope::python
