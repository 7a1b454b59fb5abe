#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "headscope/error.h"

/// Arguments from Python. Each function throws headscope::Error naming the argument and what it takes.
namespace headscope::python {

namespace py = pybind11;

/// A word of the Python API and the value that it stands for.
template <class E>
struct Choice {
  std::string_view word;
  E value;
};

/// `'text'` for a str, repr() for anything else.
std::string shown(py::handle value);

std::int64_t to_int(std::string_view name, py::handle value);
/// Also takes a float without a fraction, so that limits may be written 1e9.
std::uint64_t to_count(std::string_view name, py::handle value);
double to_double(std::string_view name, py::handle value);
bool to_bool(std::string_view name, py::handle value);
std::string to_text_argument(std::string_view name, py::handle value);

[[noreturn]] void throw_unknown_keyword(std::string_view function, std::string_view keyword);

template <class E, std::size_t N>
E to_choice(std::string_view name, py::handle value, const std::array<Choice<E>, N>& choices) {
  if (py::isinstance<py::str>(value)) {
    const auto word = value.cast<std::string>();
    for (const Choice<E>& choice : choices) {
      if (word == choice.word) {
        return choice.value;
      }
    }
  }
  std::string message(name);
  message += " must be ";
  for (std::size_t i = 0; i < N; ++i) {
    message += i == 0 ? "'" : (i + 1 == N ? " or '" : ", '");
    message += choices[i].word;
    message += "'";
  }
  throw Error(message + ", not " + shown(value));
}

}  // namespace headscope::python
