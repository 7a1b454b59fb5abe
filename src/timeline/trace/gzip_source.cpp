#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "headscope/error.h"
#include "timeline/trace/byte_source.h"

namespace headscope::timeline::trace {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 18;
/// First bytes of every gzip member (RFC 1952).
constexpr char kMagic[] = {'\x1f', '\x8b'};

/// A source whose first bytes were looked at already.
class Peeked final : public ByteSource {
 public:
  explicit Peeked(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
    while (filled_ < sizeof(kMagic)) {
      const std::size_t count = source_->read(std::span(first_).subspan(filled_));
      if (count == 0) {
        break;
      }
      filled_ += count;
    }
  }

  [[nodiscard]] bool is_gzip() const noexcept {
    return filled_ == sizeof(kMagic) && std::memcmp(first_.data(), kMagic, sizeof(kMagic)) == 0;
  }
  std::size_t read(std::span<char> target) override {
    if (given_ == filled_) {
      return source_->read(target);
    }
    const std::size_t count = std::min(target.size(), filled_ - given_);
    std::copy_n(first_.data() + given_, count, target.data());
    given_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const noexcept override { return source_->position() - (filled_ - given_); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return source_->size(); }
  [[nodiscard]] const std::string& name() const noexcept override { return source_->name(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::array<char, sizeof(kMagic)> first_{};
  std::size_t filled_ = 0;
  std::size_t given_ = 0;
};

/// Inflates one gzip member after the other, as `gzip -d` does with joined files.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)), input_(kInputBytes) {
    constexpr int kGzipWindow = 15 + 16;  // zlib's largest window; 16: a gzip header and no other
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
      throw Error("zlib could not be started for '" + name() + "'");
    }
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> target) override {
    stream_.next_out = reinterpret_cast<Bytef*>(target.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(target.size(), 1U << 30));
    const std::size_t wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && !ended_) {
      if (stream_.avail_in == 0 && !refill()) {
        fail("ends in the middle");
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        begin_next_member();
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail("is damaged");
      }
    }
    return wanted - stream_.avail_out;
  }
  [[nodiscard]] std::uint64_t position() const noexcept override { return source_->position() - stream_.avail_in; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return source_->size(); }
  [[nodiscard]] const std::string& name() const noexcept override { return source_->name(); }

 private:
  bool refill() {
    const std::size_t count = source_->read(input_);
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }

  void begin_next_member() {
    // Bytes after the last member that begin no other one are padding, which gzip ignores too.
    if ((stream_.avail_in == 0 && !refill()) || *stream_.next_in != static_cast<Bytef>(kMagic[0])) {
      ended_ = true;
    } else {
      inflateReset(&stream_);
    }
  }

  [[noreturn]] void fail(const char* what) const {
    throw Error("the gzip data of '" + name() + "' " + what + ", at byte " + std::to_string(position()) + " of " +
                std::to_string(size()) + ". Copy or record the trace again.");
  }

  std::unique_ptr<ByteSource> source_;
  std::vector<char> input_;
  z_stream stream_{};
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> plain_text_of(std::unique_ptr<ByteSource> source) {
  auto peeked = std::make_unique<Peeked>(std::move(source));
  if (peeked->is_gzip()) {
    return std::make_unique<GzipSource>(std::move(peeked));
  }
  return peeked;
}

}  // namespace headscope::timeline::trace
