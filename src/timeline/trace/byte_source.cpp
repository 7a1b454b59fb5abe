#include "timeline/trace/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "headscope/error.h"

namespace headscope::timeline::trace {
namespace {

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : name_(path), file_(std::fopen(path.c_str(), "rb")) {
    if (file_ == nullptr || std::fseek(file_.get(), 0, SEEK_END) != 0) {
      fail("open");
    }
    const long size = std::ftell(file_.get());
    if (size < 0 || std::fseek(file_.get(), 0, SEEK_SET) != 0) {
      fail("measure");
    }
    size_ = static_cast<std::uint64_t>(size);
  }

  std::size_t read(std::span<char> target) override {
    const std::size_t count = std::fread(target.data(), 1, target.size(), file_.get());
    if (count == 0 && std::ferror(file_.get()) != 0) {
      fail("read");
    }
    position_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  [[noreturn]] void fail(const char* what) const {
    throw Error("cannot " + std::string(what) + " '" + name_ + "': " + std::generic_category().message(errno));
  }

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace

std::size_t MemorySource::read(std::span<char> target) {
  const std::size_t count = std::min(target.size(), bytes_.size() - position_);
  std::copy_n(bytes_.data() + position_, count, target.data());
  position_ += count;
  return count;
}

std::unique_ptr<ByteSource> open_file(const std::string& path) { return std::make_unique<FileSource>(path); }

}  // namespace headscope::timeline::trace
