#include "timeline/trace/json_window.h"

#include <algorithm>
#include <cstring>

#include "headscope/error.h"
#include "timeline/trace/nest_scan.h"

namespace headscope::timeline::trace {
namespace {

static_assert(JsonWindow::kSlack >= NestScan::kSlack);

/// Large enough that moving the rest of an event costs nothing, small enough for the cache.
constexpr std::size_t kFirstBytes = std::size_t{1} << 18;

bool is_space(char byte) noexcept { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

bool ends_word(char byte) noexcept {
  return is_space(byte) || byte == ',' || byte == ':' || byte == ']' || byte == '}' || byte == '[' || byte == '{' ||
         byte == '"';
}

}  // namespace

JsonWindow::JsonWindow(ByteSource& source, const Progress& progress)
    : source_(source), progress_(progress), buffer_(kFirstBytes + kSlack) {}

void JsonWindow::fail(const std::string& what) const {
  throw Error("'" + source_.name() + "' " + what + ", at byte " + std::to_string(offset()) + " of its text");
}

std::size_t JsonWindow::read_more(std::size_t keep) {
  const std::size_t kept = filled_ - keep;
  std::memmove(buffer_.data(), &buffer_[keep], kept);
  dropped_ += keep;
  cursor_ = cursor_ > keep ? cursor_ - keep : 0;
  filled_ = kept;
  const std::size_t capacity = buffer_.size() - kSlack;
  if (kept > capacity / 2) {
    buffer_.resize(2 * capacity + kSlack);
  }
  const std::size_t count = source_.read(std::span(buffer_).subspan(filled_, buffer_.size() - kSlack - filled_));
  filled_ += count;
  std::memset(&buffer_[filled_], 0, kSlack);
  at_end_ = count == 0;
  if (progress_) {
    progress_(source_.position(), source_.size());
  }
  return keep;
}

int JsonWindow::next_byte() {
  for (;;) {
    while (cursor_ < filled_ && is_space(buffer_[cursor_])) {
      ++cursor_;
    }
    if (cursor_ < filled_) {
      return static_cast<unsigned char>(buffer_[cursor_]);
    }
    if (at_end_) {
      return kEnd;
    }
    read_more(cursor_);
  }
}

std::optional<std::string_view> JsonWindow::take_value(std::size_t max_bytes) {
  switch (next_byte()) {
    case kEnd:
      fail("ends where a value should be");
    case '{':
    case '[':
      return take_nested(max_bytes);
    case '"':
      return take_string(max_bytes);
    default:
      return take_word(max_bytes);
  }
}

std::optional<std::string_view> JsonWindow::take_nested(std::size_t max_bytes) {
  NestScan scan;
  std::size_t begin = cursor_;
  std::size_t scanned = cursor_;
  const std::uint64_t begin_offset = offset();
  bool fits = true;
  for (;;) {
    if (const char* end = scan.advance(&buffer_[scanned], buffer_.data() + filled_, at_end_)) {
      cursor_ = static_cast<std::size_t>(end - buffer_.data());
      fits = fits && cursor_ - begin <= max_bytes;
      return fits ? std::optional(text(begin)) : std::nullopt;
    }
    scanned = static_cast<std::size_t>(scan.stopped() - buffer_.data());
    if (at_end_) {
      cursor_ = filled_;
      fail("ends inside of the value that begins at byte " + std::to_string(begin_offset));
    }
    fits = fits && scanned - begin <= max_bytes;
    if (!fits) {
      begin = scanned;
    }
    scanned -= read_more(begin);
    begin = 0;
  }
}

std::optional<std::string_view> JsonWindow::take_string(std::size_t max_bytes) {
  std::size_t begin = cursor_;
  std::size_t scanned = cursor_ + 1;
  bool fits = true;
  for (;;) {
    while (scanned < filled_ && buffer_[scanned] != '"') {
      scanned += buffer_[scanned] == '\\' ? 2 : 1;
    }
    if (scanned < filled_) {
      cursor_ = scanned + 1;
      fits = fits && cursor_ - begin <= max_bytes;
      return fits ? std::optional(text(begin)) : std::nullopt;
    }
    if (at_end_) {
      cursor_ = filled_;
      fail("ends inside of a string");
    }
    fits = fits && scanned - begin <= max_bytes;
    if (!fits) {
      begin = filled_;  // `scanned` may be one beyond, when the last byte is a backslash
    }
    scanned -= read_more(begin);
    begin = 0;
  }
}

std::optional<std::string_view> JsonWindow::take_word(std::size_t max_bytes) {
  std::size_t begin = cursor_;
  std::size_t scanned = cursor_;
  bool fits = true;
  for (;;) {
    while (scanned < filled_ && !ends_word(buffer_[scanned])) {
      ++scanned;
    }
    if (scanned < filled_ || at_end_) {
      if (fits && scanned == begin) {
        fail("is not JSON: a value is missing");
      }
      cursor_ = scanned;
      fits = fits && cursor_ - begin <= max_bytes;
      return fits ? std::optional(text(begin)) : std::nullopt;
    }
    fits = fits && scanned - begin <= max_bytes;
    if (!fits) {
      begin = scanned;
    }
    scanned -= read_more(begin);
    begin = 0;
  }
}

}  // namespace headscope::timeline::trace
