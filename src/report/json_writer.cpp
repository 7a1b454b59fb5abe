#include "report/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "report/number_text.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

// Largest integer up to which a double holds every integer.
constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53;

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void write(const Value& value) {
    std::visit([this](const auto& data) { put(data); }, value.data());
  }

  std::string take() && { return std::move(out_); }

 private:
  void put(std::monostate) { out_ += "null"; }
  void put(bool value) { out_ += value ? "true" : "false"; }
  void put(std::int64_t value) {
    put_integer(std::to_string(value), value >= -kExactInDouble && value <= kExactInDouble);
  }
  void put(Count value) { put_integer(decimal(value), value <= static_cast<Count>(kExactInDouble)); }
  void put(const std::string& value) { put_string(value); }

  void put_integer(const std::string& digits, bool exact) { out_ += exact ? digits : '"' + digits + '"'; }

  void put(double value) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    const std::string_view shortest(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    out_ += shortest;
    if (shortest.find_first_of(".e") == std::string_view::npos) {
      out_ += ".0";
    }
  }

  void put(const Value::List& list) {
    put_items('[', ']', list, [this](const Value& item) { write(item); });
  }

  void put(const Value::Object& object) {
    put_items('{', '}', object, [this](const auto& item) {
      put_string(item.first);
      out_ += indent_ < 0 ? ":" : ": ";
      write(item.second);
    });
  }

  template <class Items, class PutItem>
  void put_items(char open, char close, const Items& items, const PutItem& put_item) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) {
        out_ += ',';
      }
      first = false;
      new_line();
      put_item(item);
    }
    --depth_;
    if (!items.empty()) {
      new_line();
    }
    out_ += close;
  }

  void new_line() {
    if (indent_ >= 0) {
      out_ += '\n';
      out_.append(static_cast<std::size_t>(indent_) * depth_, ' ');
    }
  }

  void put_string(std::string_view text) {
    out_ += '"';
    for (const char c : valid_utf8(text)) {
      put_char(c);
    }
    out_ += '"';
  }

  void put_char(char c) {
    switch (c) {
      case '"':
        out_ += "\\\"";
        return;
      case '\\':
        out_ += "\\\\";
        return;
      case '\b':
        out_ += "\\b";
        return;
      case '\f':
        out_ += "\\f";
        return;
      case '\n':
        out_ += "\\n";
        return;
      case '\r':
        out_ += "\\r";
        return;
      case '\t':
        out_ += "\\t";
        return;
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20) {
      out_ += c;
      return;
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    out_ += "\\u00";
    out_ += kHex[byte >> 4U];
    out_ += kHex[byte & 0xFU];
  }

  int indent_;
  std::size_t depth_ = 0;
  std::string out_;
};

}  // namespace

std::string write_json(const Value& value, int indent) {
  Writer writer(indent);
  writer.write(value);
  return std::move(writer).take();
}

}  // namespace headscope::report
