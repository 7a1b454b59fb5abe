#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "bindings.h"
#include "headscope/value.h"

namespace headscope::python {
namespace {

py::object count_to_python(Count count) {
  constexpr unsigned kHalf = 64;
  const auto low = static_cast<std::uint64_t>(count);
  const auto high = static_cast<std::uint64_t>(count >> kHalf);
  if (high == 0) {
    return py::int_(low);
  }
  return (py::int_(high) << py::int_(kHalf)) | py::int_(low);
}

}  // namespace

py::object value_to_python(const Value& value) {
  return std::visit(
      [](const auto& data) -> py::object {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return py::none();
        } else if constexpr (std::is_same_v<T, bool>) {
          return py::bool_(data);
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return py::int_(data);
        } else if constexpr (std::is_same_v<T, Count>) {
          return count_to_python(data);
        } else if constexpr (std::is_same_v<T, double>) {
          return py::float_(data);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return py::str(data);
        } else if constexpr (std::is_same_v<T, Value::List>) {
          py::list list(data.size());
          for (std::size_t i = 0; i < data.size(); ++i) {
            list[i] = value_to_python(data[i]);
          }
          return list;
        } else {
          py::dict object;
          for (const auto& [key, member] : data) {
            object[py::str(key)] = value_to_python(member);
          }
          return object;
        }
      },
      value.data());
}

}  // namespace headscope::python
