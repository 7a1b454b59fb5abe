#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "timeline/cupti/arbiter.h"
#include "timeline/cupti/buffer_pool.h"
#include "timeline/cupti/clock_mapping.h"
#include "timeline/cupti/graph_watch.h"
#include "timeline/cupti/kinds.h"
#include "timeline/cupti/late_join.h"
#include "timeline/cupti/library.h"
#include "timeline/cupti/op_marker.h"
#include "timeline/device_timeline.h"
#include "timeline/host_clock.h"

namespace headscope::timeline::cupti {

/// What went wrong since the session began, beyond what DeviceActivity says.
struct Losses {
  std::uint64_t foreign_buffers = 0;  ///< came back and were not ours
  std::uint64_t late_buffers = 0;     ///< came back after their session
  std::uint64_t unmarked_ops = 0;
  bool stolen = false;  ///< another client took CUPTI's callbacks

  friend bool operator==(const Losses&, const Losses&) = default;
};

/// The device clock of this process. There is one, since CUPTI's state is one: see cupti_timeline().
///
/// Locks, in the order in which they are taken: `control_` (one start, stop, flush or take at a time), `reading_`
/// (one reader of buffers), the pool's and the tables' own. CUPTI's callbacks take only the last, and CUPTI is
/// called with no more than the first two held.
class CuptiTimeline final : public DeviceTimeline {
 public:
  Status start(const Situation& situation) override;
  /// Whether a start would come so far as to trace. Loads libcupti and asks who uses it; traces nothing.
  Status probe(Situation situation);
  [[nodiscard]] Status status() const override;
  [[nodiscard]] std::uint64_t open_op(const records::Device& /*device*/) noexcept override { return marker_.open(); }
  void close_op(std::uint64_t id) noexcept override { marker_.close(id); }
  void flush() override;
  [[nodiscard]] records::DeviceActivity take() override;
  void when_many_spans(void (*take_some)()) noexcept override { take_some_ = take_some; }
  void stop() override;

  /// Holds from the next start on.
  void set_limits(const PoolLimits& limits);
  [[nodiscard]] Losses losses() const;
  /// The file of libcupti; empty before the first start that came so far.
  [[nodiscard]] std::string library_path() const;
  /// What cuptiGetVersion said; 0 before.
  [[nodiscard]] std::uint32_t library_version() const;
  [[nodiscard]] std::uint64_t buffer_bytes() const { return pool_.allocated_bytes(); }

  [[nodiscard]] bool forked() const noexcept { return forked_.load(std::memory_order_relaxed); }
  /// In the child of a fork: for good, nothing here does anything.
  void become_inert() noexcept;

 private:
  friend CuptiTimeline& cupti_timeline();
  CuptiTimeline() = default;

  struct Clocks {
    ClockPoint device;
    HostClockPoint host;
  };

  bool running() const noexcept { return running_; }
  std::optional<Decision> prepare(const Situation& situation);
  std::string load(const Situation& situation, int driver_major);
  std::optional<Decision> claim(const Situation& situation, Status& refusal);
  std::string begin_tracing();
  std::optional<Clocks> read_clocks() const;

  void begin_reading();
  void end_reading();
  /// How many spans wait then.
  std::size_t read_completed();
  void add_dropped();
  void move_out(const Clocks& end, bool all);

  mutable std::mutex control_;
  bool running_ = false;
  inline static const Status kNeverStarted{Reason::kNotStarted, "the device clock was not started", {}};
  Status status_ = kNeverStarted;
  Losses losses_;
  std::uint64_t foreign_before_ = 0;  ///< foreign buffers of earlier sessions
  PoolLimits limits_;
  std::optional<Library> library_;
  std::uint32_t version_ = 0;
  void* subscriber_ = nullptr;
  Kinds kinds_;
  Clocks begin_;
  std::thread reader_;
  records::DeviceActivity ready_;

  std::mutex reading_;
  LateJoin join_;

  BufferPool pool_;
  OpMarker marker_;
  GraphWatch graphs_{marker_};
  std::atomic<bool> forked_{false};
  std::atomic<void (*)()> take_some_{nullptr};
};

/// Lives for ever: CUPTI keeps pointers into it.
CuptiTimeline& cupti_timeline();

}  // namespace headscope::timeline::cupti
