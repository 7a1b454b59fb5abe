#include "report/glob.h"

#include <cstddef>

namespace headscope::report {

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  constexpr auto kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  // A later star can take over all that an earlier one could, so only the last one is retried.
  std::size_t star = kNone;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace headscope::report
