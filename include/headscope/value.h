#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "headscope/types.h"

namespace headscope {

/// Plain data as in JSON, except that integers are exact: what reports and bindings are made from.
class Value {
 public:
  using List = std::vector<Value>;
  /// In insertion order.
  using Object = std::vector<std::pair<std::string, Value>>;

  Value() = default;
  Value(bool value) : data_(value) {}                               // NOLINT(google-explicit-constructor)
  Value(int value) : data_(static_cast<std::int64_t>(value)) {}     // NOLINT(google-explicit-constructor)
  Value(std::int64_t value) : data_(value) {}                       // NOLINT(google-explicit-constructor)
  Value(Count value) : data_(value) {}                              // NOLINT(google-explicit-constructor)
  Value(std::uint64_t value) : data_(static_cast<Count>(value)) {}  // NOLINT(google-explicit-constructor)
  Value(double value) : data_(value) {}                             // NOLINT(google-explicit-constructor)
  Value(Nanoseconds value) : data_(std::int64_t{value.count()}) {}  // NOLINT(google-explicit-constructor)
  Value(std::string value) : data_(std::move(value)) {}             // NOLINT(google-explicit-constructor)
  Value(std::string_view value) : data_(std::string(value)) {}      // NOLINT(google-explicit-constructor)
  Value(const char* value) : data_(std::string(value)) {}           // NOLINT(google-explicit-constructor)
  Value(List value) : data_(std::move(value)) {}                    // NOLINT(google-explicit-constructor)
  Value(Object value) : data_(std::move(value)) {}                  // NOLINT(google-explicit-constructor)
  template <class T>
  Value(const std::optional<T>& value) {  // NOLINT(google-explicit-constructor)
    if (value) {
      *this = Value(*value);
    }
  }

  using Data = std::variant<std::monostate, bool, std::int64_t, Count, double, std::string, List, Object>;
  /// std::monostate is JSON's null.
  [[nodiscard]] const Data& data() const noexcept { return data_; }
  [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data_); }

  friend bool operator==(const Value&, const Value&) = default;

 private:
  Data data_;
};

}  // namespace headscope
