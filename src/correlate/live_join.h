#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "records/attention_call.h"
#include "records/device_activity.h"

namespace headscope::correlate {

/// Gives the calls of a running process their device times, as records of what the device ran arrive.
class LiveJoin {
 public:
  void add(records::DeviceActivity&& activity);

  /// Sets the times of those `calls` (with device_ops) whose work is known to be complete, and says which they are.
  /// A call is complete when each of its launches has its kernels and a later op of its thread has some. With `all`
  /// every call is settled with what there is, and nothing is kept for later ones.
  std::vector<bool> settle(std::span<records::AttentionCall* const> calls, bool all);

  /// Moves out the calls that only kernels tell of, found since the last time.
  std::vector<records::AttentionCall> take_lone();

  /// Kernels, copies and fills so far whose launch was not known when they were last looked at.
  [[nodiscard]] std::uint64_t unmatched() const noexcept { return unmatched_; }
  /// Records so far that the source lost.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] std::size_t spans() const noexcept { return activity_.spans.size(); }

 private:
  void forget(const std::vector<bool>& span_is_needed);

  records::DeviceActivity activity_;
  std::vector<records::AttentionCall> lone_;
  std::uint64_t unmatched_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace headscope::correlate
