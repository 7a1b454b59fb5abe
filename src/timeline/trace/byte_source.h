#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace headscope::timeline::trace {

/// Bytes in order, read once.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Number of bytes written to `target`; 0 at the end only. Throws Error where reading fails.
  virtual std::size_t read(std::span<char> target) = 0;
  /// Bytes taken from the storage, of `size()` in all: the compressed ones of a compressed file.
  [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// What errors call it.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

/// Bytes that the caller keeps.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes, std::string name = "trace") : bytes_(bytes), name_(std::move(name)) {}

  std::size_t read(std::span<char> target) override;
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return bytes_.size(); }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  std::string_view bytes_;
  std::string name_;
  std::size_t position_ = 0;
};

/// A file as it lies on the disk. Throws Error where it cannot be opened.
std::unique_ptr<ByteSource> open_file(const std::string& path);

/// The bytes of `source`, inflated when they begin as gzip does, whatever the file is called.
std::unique_ptr<ByteSource> plain_text_of(std::unique_ptr<ByteSource> source);

}  // namespace headscope::timeline::trace
