#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::timeline::trace {

/// Finds where a JSON object or array ends, over text that comes in pieces: brackets outside of strings are counted,
/// nothing else is looked at. Does not tell { from [, which is left to the parser.
class NestScan {
 public:
  /// `advance` may read so far beyond `end` (and ignores what is there).
  static constexpr std::size_t kSlack = 64;

  /// Goes on at `text`, of which the first call's first byte is the opening bracket. Returns the byte after the
  /// closing one; nullptr when that is not before `end`: then `stopped()` is where the next call has to begin, at
  /// most kSlack − 1 bytes before `end`, and `end` itself with `last`.
  const char* advance(const char* text, const char* end, bool last) noexcept;
  [[nodiscard]] const char* stopped() const noexcept { return stopped_; }

 private:
  const char* stopped_ = nullptr;
  std::int64_t depth_ = 0;
  std::uint64_t inside_string_ = 0;  // all bits or none
  bool escaped_ = false;             // the next byte follows a backslash
};

}  // namespace headscope::timeline::trace
