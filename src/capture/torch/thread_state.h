#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "capture/eager_recogniser.h"
#include "capture/open_forwards.h"
#include "capture/torch/chain_probes.h"
#include "capture/torch/forward_links.h"
#include "capture/torch/mask_counter.h"
#include "capture/torch/memory_meter.h"
#include "capture/torch/weak_storage.h"
#include "records/attention_call.h"
#include "records/call_observer.h"
#include "records/call_sink.h"

namespace headscope::capture::torch {

struct Frame;

/// What the hooks of one thread share.
struct ThreadState {
  /// Above 0 inside an op that is a call of its own: what runs below it is part of it.
  int suppressed = 0;
  /// Innermost open composite op.
  Frame* frame = nullptr;
  EagerRecogniser recogniser;
  std::uint64_t unfinished_reported = 0;
  /// Forward of the open eager backward chain.
  std::optional<ForwardInfo> backward_of;
  MemoryMeter meter;
  MaskCounter masks;
  /// Outputs of softmaxes: those of open chains, for which the recogniser has room for four.
  StorageKeeper<16> probabilities;
  /// Outputs of all hooked ops, more than the recogniser looks back on.
  StorageKeeper<64> written;
  /// Operands of products: whether V lies in what K had is asked when K, often a temporary, may be gone.
  StorageKeeper<64> multiplied;
  ChainProbes chain_probes;
  std::uint32_t hooked_calls = 0;
  std::uint64_t newest_device_op = 0;
  std::uint32_t system_thread = 0;  ///< the operating system's id; 0: not asked for yet
};

ThreadState& thread_state() noexcept;
/// The operating system's id of the calling thread, whose state it is.
std::uint32_t system_thread(ThreadState& state) noexcept;

/// Where calls go; nullptr until a profiler was made.
records::CallSink* sink() noexcept;
void set_sink(records::CallSink& sink) noexcept;
/// Told of hooked ops while Watch::device; set before the first of them.
void set_observer(records::CallObserver& observer) noexcept;
ForwardLinks& forward_links() noexcept;
OpenForwards& open_forwards() noexcept;

/// Who watches this thread; nobody without a sink.
inline records::Watch watch() noexcept {
  records::CallSink* const target = sink();
  return target == nullptr ? records::Watch{} : target->watch();
}

/// This thread's state when an op is `wanted` and a call of its own, else nullptr: then it only runs.
inline ThreadState* observer(bool wanted) noexcept {
  if (!wanted) {
    return nullptr;
  }
  ThreadState& state = thread_state();
  return state.suppressed > 0 ? nullptr : &state;
}

/// Own time of one hooked call in 64, outside the redispatch.
class OwnCost {
 public:
  explicit OwnCost(ThreadState& state) noexcept
      : entry_ns_((++state.hooked_calls & kSampleMask) == 0 ? base::monotonic_ns() : 0) {}
  /// `start_ns` and `end_ns` of the redispatch between.
  void finish(std::int64_t start_ns, std::int64_t end_ns) const noexcept {
    if (entry_ns_ != 0) {
      sink()->count_overhead((start_ns - entry_ns_) + (base::monotonic_ns() - end_ns));
    }
  }

 private:
  static constexpr std::uint32_t kSampleMask = 63;
  std::int64_t entry_ns_;
};

/// The time and memory of one redispatch. Restores the thread's state when the op throws.
class Redispatch {
 public:
  enum class Inside : std::uint8_t {
    kSuppressed,  ///< inner ops are part of this one
    kObserved,    ///< inner ops are looked at: this one is a frame around them
  };

  /// `device`: where the op's tensors are.
  Redispatch(ThreadState& state, const records::Watch& watch, const records::Device& device,
             const ExpectedAllocations& expected, Inside inside = Inside::kSuppressed) noexcept;
  Redispatch(const Redispatch&) = delete;
  Redispatch& operator=(const Redispatch&) = delete;
  ~Redispatch();

  void stop() noexcept;
  [[nodiscard]] std::int64_t start_ns() const noexcept { return start_ns_; }
  [[nodiscard]] std::int64_t end_ns() const noexcept { return end_ns_; }
  [[nodiscard]] const MemoryMeter::Reading& memory() const noexcept { return memory_; }
  [[nodiscard]] OpSpan span() const noexcept {
    return {start_ns_, end_ns_, memory_.allocated_bytes, memory_.peak_bytes, device_op_};
  }
  /// All device ops from this one to the newest; none when no device clock runs.
  [[nodiscard]] records::OpRange device_ops() const noexcept;

 private:
  ThreadState& state_;
  bool open_ = true;
  bool metered_;
  int suppression_;
  std::uint64_t device_op_;
  std::int64_t start_ns_;
  std::int64_t end_ns_ = 0;
  MemoryMeter::Reading memory_;
};

}  // namespace headscope::capture::torch
