#pragma once

#include <atomic>
#include <cstdint>

#include "timeline/cupti/library.h"

namespace headscope::timeline::cupti {

/// Tells CUPTI which op each thread is in, by external correlation ids of kind CUSTOM2. Ids are numbered through
/// for the whole process, so that one of an earlier session is known by its value.
class OpMarker {
 public:
  /// `api` outlives every call.
  void begin(const Api& api) noexcept;
  void end() noexcept;

  [[nodiscard]] std::uint64_t open() noexcept;
  void close(std::uint64_t op) noexcept;

  /// The calling thread's innermost op; 0: none.
  [[nodiscard]] std::uint64_t current() const noexcept;

  /// External ids in [first_op, end_op) are of this session.
  [[nodiscard]] std::uint64_t first_op() const noexcept { return first_.load(std::memory_order_relaxed); }
  [[nodiscard]] static std::uint64_t end_op() noexcept;

  /// Ops that got no id: CUPTI refused it, or they were nested too deeply.
  [[nodiscard]] std::uint64_t unmarked() const noexcept { return unmarked_.load(std::memory_order_relaxed); }

 private:
  std::atomic<const Api*> api_{nullptr};
  std::atomic<std::uint64_t> session_{0};  ///< 0: none runs
  std::atomic<std::uint64_t> first_{0};
  std::atomic<std::uint64_t> unmarked_{0};
};

}  // namespace headscope::timeline::cupti
