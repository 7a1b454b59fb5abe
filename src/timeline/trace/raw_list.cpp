#include "timeline/trace/raw_list.h"

#include <cstddef>

namespace headscope::timeline::trace {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Just behind the string that begins at `begin`.
std::size_t end_of_string(std::string_view text, std::size_t begin) noexcept {
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

/// Where the element that `text` begins with ends: at a comma or bracket of the array itself.
std::size_t end_of_element(std::string_view text) noexcept {
  int depth = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const char byte = text[at];
    if (byte == '"') {
      at = end_of_string(text, at);
      continue;
    }
    if (depth == 0 && (byte == ',' || byte == ']' || byte == '}')) {
      return at;
    }
    depth += byte == '[' || byte == '{' ? 1 : 0;
    depth -= byte == ']' || byte == '}' ? 1 : 0;
    ++at;
  }
  return at;
}

}  // namespace

RawList::RawList(std::string_view array) noexcept {
  const std::size_t begin = array.find_first_not_of(kSpace);
  if (begin != std::string_view::npos && array[begin] == '[') {
    rest_ = array.substr(begin + 1);
  }
}

bool RawList::next(std::string_view& element) noexcept {
  const std::size_t begin = rest_.find_first_not_of(kSpace);
  if (begin == std::string_view::npos || rest_[begin] == ']') {
    return false;
  }
  rest_.remove_prefix(begin);
  const std::size_t end = end_of_element(rest_);
  element = rest_.substr(0, end);
  element = element.substr(0, element.find_last_not_of(kSpace) + 1);
  const bool more = end < rest_.size() && rest_[end] == ',';
  rest_.remove_prefix(more ? end + 1 : rest_.size());
  return true;
}

}  // namespace headscope::timeline::trace
