#pragma once

#include <string_view>

namespace headscope::timeline::trace {

/// Walks over the elements of a JSON array's text, as texts. Forgiving: what is no array has no elements.
class RawList {
 public:
  explicit RawList(std::string_view array) noexcept;

  /// The next element without white space around it. False after the last one.
  bool next(std::string_view& element) noexcept;

 private:
  std::string_view rest_;
};

}  // namespace headscope::timeline::trace
