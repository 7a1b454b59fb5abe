#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "aggregate/aggregate.h"
#include "aggregate/step_series.h"
#include "aggregate/step_sums.h"
#include "headscope/options.h"
#include "session/counters.h"

namespace headscope::session {

/// Running profilers at once: bits in AttentionCall::sessions.
inline constexpr int kMaxRunning = 16;

/// Stages that a session tells apart.
inline constexpr std::size_t kMaxStages = 256;

struct Session;

/// What one thread's calls gave one running session; guarded by the drain flag of the thread's ring while it is
/// there, by the Collector once detached.
struct Partial {
  explicit Partial(Session& owner);

  Session* session;
  aggregate::Aggregate aggregate;
  aggregate::StepSums step_sums;  ///< since the last step()
  std::int64_t step;
  std::unique_ptr<Partial> next;  ///< of Session::detached
};

/// Of the stretches between the start and the end of a stage.
struct StageSums {
  std::uint64_t count = 0;
  std::int64_t time_ns = 0;
};

/// What a session had when its last window was taken.
struct WindowStart {
  std::int64_t on_ns = 0;
  std::int64_t steps = 0;
  std::int64_t step_number = 0;
  Counters counters;
  std::map<std::string, StageSums, std::less<>> stages;
};

/// One profiler: its options, and what it collected while it does not run. All members are guarded by the Collector
/// that it is given to, except those that say otherwise.
struct Session {
  explicit Session(const Options& chosen) : options(chosen), collected(wanted()), windows(wanted()) {}

  /// Whether a call recorded by `thread` belongs to this session; the sessions bit of the call is set.
  [[nodiscard]] bool sees(const records::AttentionCall& call, std::uint32_t thread) const noexcept;

  [[nodiscard]] bool running() const noexcept { return slot >= 0; }
  /// Whether the attention weights of a step are sampled for this session.
  [[nodiscard]] bool samples(std::int64_t step) const noexcept {
    return options.patterns > 0 && step % options.patterns == 0;
  }
  [[nodiscard]] aggregate::Wanted wanted() const noexcept {
    return {.per_head = options.per_head,
            .memory = options.memory != Memory::kOff,
            .keep_calls = options.keep_calls,
            .patterns_every = options.patterns,
            .tolerance = options.tolerance > 0};
  }

  // What folding reads.
  const Options options;
  /// Calls that began earlier belong to another user of the slot, or were made before a reset.
  std::atomic<std::int64_t> started_ns{0};
  std::uint32_t owner_thread = 0;  ///< thread that started it; constant while running
  /// A device clock times its calls; constant while running.
  bool device_clock = false;

  int slot = -1;  ///< −1: stopped
  int pauses = 0;
  std::int64_t steps = 0;                   ///< ended since the last reset
  std::int64_t step_number = 0;             ///< of the step that goes on
  std::optional<std::int64_t> on_since_ns;  ///< set while running and not paused
  std::int64_t on_ns = 0;                   ///< finished stretches
  std::int64_t on_ns_before_step = 0;
  Counters counted;  ///< of finished stretches
  Counters on_since_counters;
  aggregate::Aggregate collected;  ///< of finished runs, since the last window was taken
  aggregate::Aggregate windows;    ///< of the windows that were taken
  std::map<std::string, StageSums, std::less<>> stages;
  WindowStart window;
  aggregate::StepSums step_sums;  ///< of the step that goes on, from finished runs
  aggregate::StepSeries series;
  std::unique_ptr<Partial> detached;  ///< of finished runs, not yet in `collected`
};

}  // namespace headscope::session
