#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "capture/torch/device_events.h"
#include "capture/torch/op_log.h"
#include "correlate/live_join.h"
#include "session/collector.h"
#include "timeline/device_timeline.h"
#include "timeline/host_clock.h"

namespace headscope {

/// The device clock of the process and the calls that wait for it, for all running profilers that want it.
/// Order of locks: this one's, then the collector's.
///
/// torch.profiler comes first: where it starts, CUPTI is given up, and what torch.profiler recorded times the calls
/// made meanwhile. Where CUPTI is not to be had, CUDA events time the calls.
class DeviceClock {
 public:
  /// `timeline` and `collector` outlive it.
  DeviceClock(timeline::DeviceTimeline& timeline, session::Collector& collector);
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  ~DeviceClock() = default;

  enum class Want : std::uint8_t { kKernels, kEvents };
  /// One more profiler wants the clock; it counts only where the clock then runs. One that runs stays as it is.
  timeline::Status join(Want want);
  /// One less. The last one ends the clock.
  void leave() noexcept;

  enum class Wait : std::uint8_t {
    kNo,   ///< give times to calls whose kernels are known to have ended
    kYes,  ///< wait for the devices, and give up what is missing then
  };
  /// Folds calls whose work the devices have done.
  void settle(Wait wait) noexcept;

  /// What the process knows that CUPTI does not.
  static timeline::Situation situation();
  // The rest as torch_profiler.h says.
  static void follow_torch_profiler() noexcept;
  /// torch.profiler was used: it may hold CUPTI's subscriber though it is idle.
  static void note_torch_profiler() noexcept;
  void hand_over() noexcept;
  [[nodiscard]] bool handed_over() noexcept;
  /// Times are CLOCK_REALTIME, threads torch's numbers.
  void take_back(records::DeviceActivity&& activity) noexcept;

  struct Counts {
    std::uint64_t unmatched = 0;          ///< kernels, copies and fills whose launch is not known
    std::uint64_t dropped = 0;            ///< records that were lost
    std::uint64_t captured = 0;           ///< calls that went into CUDA graphs
    std::uint64_t of_unknown_graphs = 0;  ///< kernels of graphs whose capture was not seen
  };
  /// Of the whole process so far.
  [[nodiscard]] Counts counts();
  /// "cupti" or "events".
  [[nodiscard]] std::string_view mode();
  /// What is missing or may be wrong although the clock runs, or ran; one text.
  [[nodiscard]] std::string warnings();

 private:
  friend struct DeviceClockForkHandlers;

  enum class Source : std::uint8_t {
    kNone,
    kTimeline,
    kEvents,
    kTorchProfiler,  ///< which runs, and has CUPTI
  };

  timeline::Status start_timeline();
  /// Takes what the source has so far.
  void bring_in();
  void end_source();
  void begin_log();
  void begin_events();
  void take_pending();
  void fold_settled(bool all);
  [[nodiscard]] std::vector<records::Device> devices() const;

  std::mutex mutex_;
  timeline::DeviceTimeline& timeline_;
  session::Collector& collector_;
  correlate::LiveJoin join_;
  std::vector<session::PendingCall> waiting_;
  std::vector<std::uint32_t> captured_by_;  ///< ring of each captured call
  int users_ = 0;
  Source source_ = Source::kNone;
  std::string problem_;  ///< why there are no times for a while

  bool by_events_ = false;  ///< the source, or the last one
  capture::torch::DeviceEvents events_;
  capture::torch::OpLog log_;
  timeline::HostClockPoint log_begin_;
};

}  // namespace headscope
