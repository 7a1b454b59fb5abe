#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "records/call_observer.h"
#include "records/device_activity.h"

namespace headscope::capture::torch {

/// Notes when each hooked op begins and ends, for launches that torch.profiler records: they know its numbers of
/// threads and no ids of ours.
class OpLog final : public records::CallObserver {
 public:
  /// Ops beyond are not noted; 40 MiB.
  static constexpr std::size_t kMostOps = std::size_t{1} << 20;

  void begin() noexcept;
  /// Moves out what was noted, by CLOCK_MONOTONIC; later ops get no id.
  std::vector<records::OpSpan> end() noexcept;

  [[nodiscard]] std::uint64_t open_op(const records::Device& device) noexcept override;
  void close_op(std::uint64_t id) noexcept override;

 private:
  std::mutex mutex_;  // torch.profiler, which costs a hundred times more, runs wherever this is used
  bool on_ = false;
  std::vector<records::OpSpan> ops_;  // by id
};

}  // namespace headscope::capture::torch
