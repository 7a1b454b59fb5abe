#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "correlate/correlate.h"
#include "records/attention_call.h"
#include "records/device_activity.h"

namespace headscope::correlate {

/// Gives the calls of a running process their device times, as records of what the device ran arrive.
class LiveJoin {
 public:
  void add(records::DeviceActivity&& activity);

  enum class Settled : std::uint8_t {
    kNo,
    kYes,       ///< it has its times, or none will come
    kCaptured,  ///< it did not run: it went into a CUDA graph, and each replay is a call
  };
  /// Sets the times of those `calls` (with device_ops) whose work is known to be complete, and says which they are.
  /// A call is complete when each of its launches has its kernels and a later op of its thread has some. With `all`
  /// every call is settled with what there is, and nothing is kept for later ones.
  std::vector<Settled> settle(std::span<records::AttentionCall* const> calls, bool all);

  /// A call that only kernels tell of.
  struct Found {
    static constexpr std::size_t kNone = ~std::size_t{0};

    records::AttentionCall call;   ///< of no session
    std::size_t captured = kNone;  ///< it is a replay of the call that was the n-th to be kCaptured
  };
  /// Moves out those that were found since the last time.
  std::vector<Found> take_found();

  /// Captured calls are remembered for the life of the process; those beyond have no times.
  static constexpr std::size_t kMostCaptured = 65'536;

  /// Kernels, copies and fills so far whose launch was not known when they were last looked at.
  [[nodiscard]] std::uint64_t unmatched() const noexcept { return unmatched_; }
  /// Records so far that the source lost.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] std::size_t spans() const noexcept { return activity_.spans.size(); }
  /// Kernels so far of graphs whose capture was not seen.
  [[nodiscard]] std::uint64_t of_unknown_graphs() const noexcept { return of_unknown_graphs_; }

 private:
  void claim_captures(std::span<records::AttentionCall* const> calls, std::span<CallWindow> windows);
  void forget(const std::vector<bool>& span_is_needed);

  records::DeviceActivity activity_;
  std::vector<records::AttentionCall> captured_;
  std::vector<CallWindow> captured_windows_;
  std::vector<Found> found_;
  std::uint64_t of_unknown_graphs_ = 0;
  std::uint64_t unmatched_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace headscope::correlate
