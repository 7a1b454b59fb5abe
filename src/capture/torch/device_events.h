#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "records/call_observer.h"
#include "records/device_activity.h"

namespace headscope::capture::torch {

/// Times hooked ops on a device by an event before and one after each on its stream, where nothing tells of kernels.
/// The time between them is that of the op's kernels and of the gaps between them. Of ops inside each other only the
/// innermost count.
///
/// Through torch's device guard, so that it needs no CUDA to build. No member throws but std::bad_alloc, and take().
class DeviceEvents final : public records::CallObserver {
 public:
  /// Ops beyond wait without events.
  static constexpr std::size_t kMostOps = 65'536;

  /// This torch has a device that this can time.
  static bool available() noexcept;

  void begin() noexcept;
  /// Forgets ops that were not taken.
  void end() noexcept;

  [[nodiscard]] std::uint64_t open_op(const records::Device& device) noexcept override;
  void close_op(std::uint64_t id) noexcept override;

  /// Moves out the ops that have ended on their device, each as a launch with one span.
  [[nodiscard]] records::DeviceActivity take();

 private:
  struct Op {
    std::uint64_t id = 0;
    std::uint64_t parent = 0;  ///< around it on its thread
    std::uint64_t thread = 0;
    records::Device device;
    std::int64_t stream = 0;  ///< c10::StreamId
    void* begin = nullptr;
    void* end = nullptr;  ///< nullptr: it has not ended on the host, or has no events
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;  ///< on the host; 0: it runs
    bool holds_ops = false;
  };

  Op* find(std::uint64_t id) noexcept;
  void record(Op& op, void*& event) noexcept;
  void recycle(Op& op) noexcept;

  std::mutex mutex_;  // an event costs the host more
  bool on_ = false;
  std::vector<Op> ops_;                             // by id
  std::map<std::int8_t, std::vector<void*>> free_;  // events by device
};

}  // namespace headscope::capture::torch
