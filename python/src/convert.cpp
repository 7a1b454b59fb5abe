#include "convert.h"

#include <cmath>
#include <limits>

namespace headscope::python {
namespace {

Error wrong(std::string_view name, const char* takes, py::handle value) {
  return Error(std::string(name) + " must be " + takes + ", not " + shown(value));
}

/// The int that `value` stands for through __index__; a null object if it has none.
py::object index_of(py::handle value) {
  if (py::isinstance<py::bool_>(value) || PyIndex_Check(value.ptr()) == 0) {
    return {};
  }
  auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
  }
  return index;
}

}  // namespace

std::string shown(py::handle value) {
  try {
    std::string text = py::repr(value).cast<std::string>();
    constexpr std::size_t kLongest = 80;
    return text.size() > kLongest ? text.substr(0, kLongest) + "…" : text;
  } catch (const py::error_already_set&) {
    return std::string("an instance of ") + Py_TYPE(value.ptr())->tp_name;
  }
}

std::int64_t to_int(std::string_view name, py::handle value) {
  const py::object index = index_of(value);
  if (!index) {
    throw wrong(name, "an int", value);
  }
  int overflow = 0;
  const long long result = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw wrong(name, "an int of at most 63 bits", value);
  }
  return result;
}

std::uint64_t to_count(std::string_view name, py::handle value) {
  constexpr const char* kTakes = "a whole number from 0 to 2**64 - 1";
  if (PyFloat_Check(value.ptr()) != 0) {
    const double number = PyFloat_AS_DOUBLE(value.ptr());
    constexpr double kEnd = 18446744073709551616.0;  // 2⁶⁴
    if (!(number >= 0.0 && number < kEnd) || std::floor(number) != number) {
      throw wrong(name, kTakes, value);
    }
    return static_cast<std::uint64_t>(number);
  }
  const py::object index = index_of(value);
  if (!index) {
    throw wrong(name, kTakes, value);
  }
  const unsigned long long result = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw wrong(name, kTakes, value);
  }
  return result;
}

double to_double(std::string_view name, py::handle value) {
  double result = std::numeric_limits<double>::quiet_NaN();
  if (!py::isinstance<py::bool_>(value) && !py::isinstance<py::str>(value)) {
    result = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      result = std::numeric_limits<double>::quiet_NaN();
    }
  }
  if (!std::isfinite(result) || result < 0.0) {
    throw wrong(name, "a finite number that is not negative", value);
  }
  return result;
}

bool to_bool(std::string_view name, py::handle value) {
  if (!py::isinstance<py::bool_>(value)) {
    throw wrong(name, "True or False", value);
  }
  return value.cast<bool>();
}

std::string to_text_argument(std::string_view name, py::handle value) {
  if (!py::isinstance<py::str>(value)) {
    throw wrong(name, "a str", value);
  }
  return value.cast<std::string>();
}

void throw_unknown_keyword(std::string_view function, std::string_view keyword) {
  throw Error(std::string(function) + " has no argument '" + std::string(keyword) + "'");
}

}  // namespace headscope::python
