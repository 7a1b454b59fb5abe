#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "records/call_sink.h"
#include "session/call_log.h"
#include "session/counters.h"
#include "session/ring_registry.h"
#include "session/session.h"

namespace headscope::session {

/// What a session holds at one moment.
struct Collected {
  aggregate::Aggregate aggregate;
  aggregate::StepSeries series;
  std::int64_t on_ns = 0;
  std::int64_t steps = 0;
  Counters counters;
  std::map<std::string, StageSums, std::less<>> stages;
};

/// Takes the hooks' calls and folds them for the running sessions.
///
/// A call goes into its thread's ring, without lock or allocation. It is folded by its thread once the ring is three
/// quarters full, or by whoever asks for a session's figures; a ring's drain flag says who. Only when a ring is full
/// while another thread folds it does its thread wait. No call is dropped.
///
/// Control (start, stop, step, …) is one lock, which recording threads take at their first call and at their end
/// only. Order of locks: control, then drain flags; whoever holds a drain flag waits for nothing.
///
/// Make one a process and never destroy it: rings belong to threads, and a thread remembers a single one.
/// After fork() the child starts without running sessions; what its sessions had collected stays readable.
class Collector final : public records::CallSink {
 public:
  Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // CallSink. Sessions of Threads::kCurrent are reported to every thread, since a backward may run on another one;
  // folding leaves out what is not theirs (Session::sees).
  records::Watch watch() noexcept override;
  void submit(records::AttentionCall&& call) noexcept override;
  records::LayerRef next_unnamed_layer() noexcept override;
  std::uint32_t this_thread() noexcept override;
  bool spend_mask_budget(std::int64_t elements) noexcept override;
  std::int64_t pattern_rows() noexcept override { return pattern_rows_.load(std::memory_order_relaxed); }
  bool spend_pattern_budget(std::int64_t scores) noexcept override;
  void count_failed_call() noexcept override { counters_.failed_call(); }
  void count_hook_error() noexcept override { counters_.hook_error(); }
  void count_unfinished_chains(std::uint64_t chains) noexcept override { counters_.unfinished_chains(chains); }
  void count_overhead(std::int64_t sampled_ns) noexcept override { counters_.sampled_hook(sampled_ns); }
  void count_sampling(std::int64_t ns) noexcept override { counters_.sampling(ns); }

  /// No effect while it runs. Throws Error when kMaxRunning sessions run.
  void start(Session& session);
  /// No effect when stopped. Afterwards nothing of the collector refers to the session. Ends its pauses.
  void stop(Session& session) noexcept;
  [[nodiscard]] bool running(const Session& session) noexcept;
  /// Running and not paused.
  [[nodiscard]] bool on(const Session& session) noexcept;
  /// Pauses nest. Neither has an effect when stopped.
  void pause(Session& session) noexcept;
  void resume(Session& session) noexcept;
  /// Throws Error when stopped.
  void step(Session& session);
  /// The step that begins has number `step_number`.
  void reset(Session& session, std::int64_t step_number);
  [[nodiscard]] Collected collect(Session& session);
  /// What came since the last window, or since the start or reset; collect() still shows it.
  [[nodiscard]] Collected take_window(Session& session);
  /// No effect on a session that is not on. Names beyond kMaxStages share "(others)".
  void add_stage(Session& session, std::string_view stage, std::int64_t time_ns) noexcept;

  /// Folds all rings and moves out the calls that wait for a device clock (those with device_ops).
  [[nodiscard]] std::vector<PendingCall> take_pending();
  /// Folds calls that were taken, with the times that they have.
  void add(const std::vector<PendingCall>& calls) noexcept;
  /// A call that no hook recorded, as one of all profilers that want the device clock.
  [[nodiscard]] PendingCall pending_of(records::AttentionCall&& call) noexcept;
  /// Calls that wait, about.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
  /// Called by a thread that recorded a call, with no lock held, once kMostPending calls wait.
  void when_many_pending(void (*settle)()) noexcept { settle_ = settle; }
  static constexpr std::size_t kMostPending = 4096;

  /// Keeps the calls from here on one by one, whichever profilers see them.
  void begin_log() noexcept;
  /// Folds all rings, and moves out the calls that were kept.
  [[nodiscard]] std::vector<LoggedCall> end_log() noexcept;

  /// Rings made so far, for tests of the bound.
  [[nodiscard]] std::size_t rings();

 private:
  friend class RingUse;
  friend struct ForkHandlers;

  // nullptr when there is none to be had.
  ThreadRing* take_ring() noexcept;
  void park_ring(ThreadRing& ring) noexcept;

  // The caller holds the ring's drain flag.
  void drain(ThreadRing& ring) noexcept;
  void fold(ThreadRing& ring, const records::AttentionCall& call) noexcept;
  void keep_in_log(const ThreadRing& ring, const records::AttentionCall& call) noexcept;
  void keep_pending(ThreadRing& ring, records::AttentionCall&& call) noexcept;
  void fold_untimed(ThreadRing& ring, records::AttentionCall&& call) noexcept;
  // The slot's session ends: its waiting calls are folded without times.
  void give_up_pending(ThreadRing& ring, int slot) noexcept;
  [[nodiscard]] aggregate::LayerKey layer_of(const records::AttentionCall& call, int slot) const noexcept;

  // The caller holds control_.
  template <class Visit>
  void visit_drained(Visit&& visit);
  void detach(Session& session) noexcept;
  void end(Session& session) noexcept;
  void switch_on(Session& session) noexcept;
  // What the hooks are to see: all sessions that are on, `but` one.
  void publish(const Session* but = nullptr) noexcept;
  void renew_budgets() noexcept;

  std::mutex control_;
  RingRegistry rings_;
  std::array<Session*, kMaxRunning> slots_{};
  // Sessions that are on in the low 16 bits, above them what they want captured: Watch in one word.
  std::atomic<std::uint32_t> watched_{0};
  std::atomic<std::int64_t> mask_budget_{0};
  std::atomic<std::int64_t> pattern_budget_{0};
  std::atomic<std::int64_t> pattern_rows_{0};
  std::atomic<std::size_t> pending_{0};
  std::atomic<void (*)()> settle_{nullptr};
  CallLog log_;
  LiveCounters counters_;
};

/// Registers what `collector` does around fork(). Called once, by its constructor.
void handle_forks(Collector& collector);

}  // namespace headscope::session
