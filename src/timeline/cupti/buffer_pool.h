#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

namespace headscope::timeline::cupti {

struct PoolLimits {
  std::size_t buffer_bytes = std::size_t{2} << 20;  ///< CUPTI advises 1 to 10 MB
  std::size_t buffers = 64;                         ///< at most BufferPool::kSlots / 2
};

/// Buffers for CUPTI's records, of a bounded number. request() and complete() run in CUPTI's callbacks, inside
/// CUDA calls and under CUPTI's locks: they call nothing of CUPTI, throw nothing, and allocate with posix_memalign
/// only, since a program's own operator new may use CUDA.
///
/// CUPTI 12.9 and later take "no buffer" for an answer and count the records that they drop. Earlier ones crash,
/// and get scrap instead: a small buffer whose records are counted and thrown away.
class BufferPool {
 public:
  static constexpr std::size_t kSlots = 1024;
  static constexpr std::size_t kScrapBytes = std::size_t{64} << 10;
  static constexpr std::size_t kAlignment = 8;  ///< of records; CUPTI refuses less

  struct Completed {
    std::size_t slot = 0;
    const std::uint8_t* data = nullptr;
    std::size_t valid_bytes = 0;
    bool scrap = false;
  };

  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  /// CUPTI may have no buffer any more.
  ~BufferPool();

  /// Begins a session. Buffers that CUPTI still has are given up: they count no longer against the limit.
  void configure(const PoolLimits& limits, bool may_refuse);

  /// A buffer, or null and 0.
  void request(std::uint8_t** buffer, std::size_t* size) noexcept;
  /// CUPTI is done with a buffer. One that is not from here is counted and left alone.
  void complete(std::uint8_t* buffer, std::size_t valid_bytes) noexcept;

  /// The next buffer to read, in the order of completion; of those that were complete at `mark`.
  std::optional<Completed> take_completed(std::uint64_t mark = std::numeric_limits<std::uint64_t>::max());
  void recycle(const Completed& completed);
  /// Waits for a completed buffer; false after wake().
  bool wait_for_completed();
  void wake();
  void rearm();  ///< undoes wake()

  /// Buffers that CUPTI has.
  [[nodiscard]] std::size_t outstanding() const;
  /// A moment.
  [[nodiscard]] std::uint64_t mark() const;
  /// Buffers that CUPTI got in this session, had at `mark` and still has.
  [[nodiscard]] std::size_t outstanding_since(std::uint64_t mark) const;
  [[nodiscard]] std::uint64_t foreign() const;
  [[nodiscard]] std::uint64_t allocated_bytes() const;
  /// Frees what is not in use.
  void trim();

 private:
  enum class State : std::uint8_t { kEmpty, kFree, kGiven, kCompleted, kBeingRead };

  struct Slot {
    std::uint8_t* data = nullptr;
    std::size_t bytes = 0;
    std::size_t valid_bytes = 0;
    std::uint64_t order = 0;  ///< of the last request, then of completion
    State state = State::kEmpty;
    bool scrap = false;
    bool given_up = false;  ///< CUPTI has it since an earlier session
  };

  Slot* find_free(bool scrap) noexcept;
  Slot* allocate(bool scrap) noexcept;

  mutable std::mutex mutex_;
  std::condition_variable completed_;
  PoolLimits limits_;
  bool may_refuse_ = true;
  bool woken_ = false;
  std::size_t regular_ = 0;  ///< buffers that are neither scrap nor given up
  std::uint64_t bytes_ = 0;
  std::uint64_t events_ = 0;  ///< requests and completions
  std::uint64_t foreign_ = 0;
  std::size_t waiting_ = 0;  ///< slots in kCompleted
  std::array<Slot, kSlots> slots_{};
};

}  // namespace headscope::timeline::cupti
