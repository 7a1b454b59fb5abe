#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "timeline/trace/byte_source.h"

namespace headscope::timeline::trace {

/// Bytes of the file that are done, and all of them.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// JSON text that streams by: one value after the other, of which only the one in hand is in memory.
class JsonWindow {
 public:
  /// What may be read beyond the end of a value's text.
  static constexpr std::size_t kSlack = 64;
  static constexpr int kEnd = -1;

  JsonWindow(ByteSource& source, const Progress& progress);

  /// The next byte that is not white space, which stays; kEnd at the end.
  int next_byte();
  /// Goes past the byte that next_byte() told.
  void skip_byte() noexcept { ++cursor_; }
  /// Goes past the value that begins at the next byte. Its text, valid until the next call, unless it is longer than
  /// `max_bytes`. Throws Error where the file ends inside of it.
  std::optional<std::string_view> take_value(std::size_t max_bytes);

  /// Of the next byte in the text.
  [[nodiscard]] std::uint64_t offset() const noexcept { return dropped_ + cursor_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::optional<std::string_view> take_nested(std::size_t max_bytes);
  std::optional<std::string_view> take_string(std::size_t max_bytes);
  std::optional<std::string_view> take_word(std::size_t max_bytes);
  /// Reads on; bytes before `keep` may go, whereby positions fall by the number returned.
  std::size_t read_more(std::size_t keep);
  [[nodiscard]] std::string_view text(std::size_t begin) const { return {&buffer_[begin], cursor_ - begin}; }

  ByteSource& source_;
  const Progress& progress_;
  std::vector<char> buffer_;
  std::size_t cursor_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t dropped_ = 0;
  bool at_end_ = false;
};

}  // namespace headscope::timeline::trace
