#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "correlate/live_join.h"
#include "session/collector.h"
#include "timeline/device_timeline.h"

namespace headscope {

/// The device clock of the process and the calls that wait for it, for all running profilers that want it.
/// Order of locks: this one's, then the collector's.
class DeviceClock {
 public:
  /// `timeline` and `collector` outlive it.
  DeviceClock(timeline::DeviceTimeline& timeline, session::Collector& collector)
      : timeline_(timeline), collector_(collector) {}
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  ~DeviceClock() = default;

  /// One more profiler wants the clock; it counts only where the clock then runs.
  timeline::Status join();
  /// One less. The last one ends the clock.
  void leave() noexcept;

  enum class Wait : std::uint8_t {
    kNo,   ///< give times to calls whose kernels are known to have ended
    kYes,  ///< wait for the devices, and give up what is missing then
  };
  /// Folds calls whose work the devices have done.
  void settle(Wait wait) noexcept;

  struct Losses {
    std::uint64_t unmatched = 0;  ///< kernels, copies and fills whose launch is not known
    std::uint64_t dropped = 0;    ///< records that were lost
  };
  /// Of the whole process so far.
  [[nodiscard]] Losses losses();
  /// What is missing or may be wrong although the clock runs, or ran; one text.
  [[nodiscard]] std::string warnings();

 private:
  friend struct DeviceClockForkHandlers;

  void take_pending();
  void fold_settled(bool all);
  [[nodiscard]] std::vector<records::Device> devices() const;

  std::mutex mutex_;
  timeline::DeviceTimeline& timeline_;
  session::Collector& collector_;
  correlate::LiveJoin join_;
  std::vector<session::PendingCall> waiting_;
  int users_ = 0;
};

/// The one of this process, over CUPTI. Never destroyed.
DeviceClock& device_clock(session::Collector& collector);

}  // namespace headscope
