#include "report/layer_names.h"

#include <algorithm>
#include <set>

#include "report/utf8.h"

namespace headscope::report {

std::string shorten_middle(std::string_view name, std::size_t limit) {
  const std::size_t length = display_width(name);
  limit = std::max<std::size_t>(limit, 3);
  if (length <= limit) {
    return std::string(name);
  }
  const std::size_t kept = limit - 1;
  const std::size_t dot = name.find('.');
  std::size_t head = dot == std::string_view::npos ? kept : display_width(name.substr(0, dot + 1));
  if (head > kept / 2) {
    head = kept / 3;
  }
  return std::string(name.substr(0, byte_of_character(name, head))) + "…" +
         std::string(name.substr(byte_of_character(name, length - (kept - head))));
}

std::vector<std::string> shorten_all(const std::vector<std::string>& names, std::size_t preferred) {
  const std::size_t different = std::set<std::string>(names.begin(), names.end()).size();
  std::size_t longest = 0;
  for (const std::string& name : names) {
    longest = std::max(longest, display_width(name));
  }
  for (std::size_t limit = preferred; limit < longest; ++limit) {
    std::vector<std::string> shortened;
    shortened.reserve(names.size());
    for (const std::string& name : names) {
      shortened.push_back(shorten_middle(name, limit));
    }
    if (std::set<std::string>(shortened.begin(), shortened.end()).size() == different) {
      return shortened;
    }
  }
  return names;
}

std::string list_names(const std::vector<std::string>& names, std::size_t most) {
  std::vector<std::string> different;
  for (const std::string& name : names) {
    if (std::ranges::find(different, name) == different.end()) {
      different.push_back(name);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < different.size() && i < most; ++i) {
    text += (i > 0 ? ", " : "") + different[i];
  }
  return different.size() > most ? text + " and " + std::to_string(different.size() - most) + " more" : text;
}

}  // namespace headscope::report
