#pragma once

#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "headscope/value.h"

namespace headscope::report {

/// A strict reader of JSON, written for tests independently of the writer: throws for anything that RFC 8259
/// does not allow. Numbers with a point or an exponent are doubles, others int64.
class JsonReader {
 public:
  static Value read(std::string_view text) {
    JsonReader reader(text);
    Value value = reader.value();
    reader.space();
    reader.require(reader.text_.empty(), "text after the value");
    return value;
  }

 private:
  explicit JsonReader(std::string_view text) : text_(text) {}

  static void require(bool holds, const char* what) {
    if (!holds) {
      throw std::runtime_error(what);
    }
  }
  void space() {
    while (!text_.empty() && std::string_view(" \n\r\t").find(text_.front()) != std::string_view::npos) {
      text_.remove_prefix(1);
    }
  }
  bool take(std::string_view token) {
    if (!text_.starts_with(token)) {
      return false;
    }
    text_.remove_prefix(token.size());
    return true;
  }

  Value value() {
    space();
    if (take("null")) {
      return {};
    }
    if (take("true")) {
      return true;
    }
    if (take("false")) {
      return false;
    }
    if (take("[")) {
      return list();
    }
    if (take("{")) {
      return object();
    }
    return text_.starts_with('"') ? Value(string()) : number();
  }

  Value list() {
    Value::List list;
    space();
    if (take("]")) {
      return list;
    }
    do {
      list.push_back(value());
      space();
    } while (take(","));
    require(take("]"), "list without end");
    return list;
  }

  Value object() {
    Value::Object object;
    space();
    if (take("}")) {
      return object;
    }
    do {
      space();
      std::string key = string();
      space();
      require(take(":"), "key without colon");
      object.emplace_back(std::move(key), value());
      space();
    } while (take(","));
    require(take("}"), "object without end");
    return object;
  }

  std::string string() {
    require(take("\""), "string expected");
    std::string out;
    while (!take("\"")) {
      require(!text_.empty() && static_cast<unsigned char>(text_.front()) >= 0x20, "raw control character");
      if (take("\\u00")) {
        out += static_cast<char>(std::strtol(std::string(text_.substr(0, 2)).c_str(), nullptr, 16));
        text_.remove_prefix(2);
      } else if (take("\\")) {
        const std::string_view escapes = "\"\\/bfnrt";
        const auto at = escapes.find(text_.front());
        require(at != std::string_view::npos, "unknown escape");
        out += "\"\\/\b\f\n\r\t"[at];
        text_.remove_prefix(1);
      } else {
        out += text_.front();
        text_.remove_prefix(1);
      }
    }
    return out;
  }

  Value number() {
    const std::string number(text_.substr(0, text_.find_first_not_of("+-.0123456789eE")));
    require(!number.empty(), "value expected");
    text_.remove_prefix(number.size());
    const std::size_t first_digit = number.front() == '-' ? 1 : 0;
    require(number.size() > first_digit && std::isdigit(static_cast<unsigned char>(number[first_digit])) != 0, "digit");
    const bool zero_leads = number[first_digit] == '0' && number.size() > first_digit + 1;
    require(!zero_leads || std::isdigit(static_cast<unsigned char>(number[first_digit + 1])) == 0, "leading zero");
    char* end = nullptr;
    if (number.find_first_of(".eE") == std::string::npos) {
      const auto integer = std::strtoll(number.c_str(), &end, 10);
      require(*end == '\0', "malformed integer");
      return std::int64_t{integer};
    }
    const double real = std::strtod(number.c_str(), &end);
    require(*end == '\0', "malformed number");
    return real;
  }

  std::string_view text_;
};

/// The member of an object; null where there is none.
inline Value member(const Value& object, std::string_view key) {
  for (const auto& [name, value] : std::get<Value::Object>(object.data())) {
    if (name == key) {
      return value;
    }
  }
  return {};
}

inline bool has_member(const Value& object, std::string_view key) {
  for (const auto& [name, value] : std::get<Value::Object>(object.data())) {
    if (name == key) {
      return true;
    }
  }
  return false;
}

}  // namespace headscope::report
