#pragma once

#include "session/collector.h"

namespace headscope::session {

/// The calling thread's ring, taken at its first use and parked when the thread ends. Calls made later still, by
/// destructors of other thread-local objects, take a ring for the time of one use.
class RingUse {
 public:
  explicit RingUse(Collector& collector) noexcept;
  RingUse(const RingUse&) = delete;
  RingUse& operator=(const RingUse&) = delete;
  ~RingUse();

  /// nullptr when there is none to be had.
  [[nodiscard]] ThreadRing* ring() const noexcept { return ring_; }

  /// The ring that this thread has already, or nullptr.
  static ThreadRing* known() noexcept;

 private:
  Collector* collector_;
  ThreadRing* ring_;
};

}  // namespace headscope::session
