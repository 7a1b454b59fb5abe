#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/export.h"
#include "headscope/options.h"
#include "headscope/stats.h"

namespace headscope {

/// Profiles every attention call between its construction and its destruction (or stop()).
///
///     headscope::AttentionProfiler profiler{{.memory = headscope::Memory::kOff}};
///     auto out = model.forward(inputs);
///     headscope::Stats stats = profiler.get_stats();
///
/// Profilers may nest and run side by side; each sees the calls of its own scope. Up to
/// kMaxRunning of them run at once. All members may be called from any thread.
class HEADSCOPE_EXPORT AttentionProfiler {
 public:
  static constexpr int kMaxRunning = 16;

  /// Starts, unless Options::start_now is false. Throws Error for an option out of its range and when
  /// kMaxRunning profilers are running.
  [[nodiscard]] explicit AttentionProfiler(const Options& options = {});
  AttentionProfiler(AttentionProfiler&& other) noexcept;
  AttentionProfiler& operator=(AttentionProfiler&& other) noexcept;
  AttentionProfiler(const AttentionProfiler&) = delete;
  AttentionProfiler& operator=(const AttentionProfiler&) = delete;
  /// Stops.
  ~AttentionProfiler();

  /// Starts, or continues after stop(); what was collected is kept. No effect while running.
  void start();
  /// No effect when stopped.
  void stop() noexcept;
  [[nodiscard]] bool running() const noexcept;

  /// Leaves calls out until resume(). Pauses nest.
  void pause() noexcept;
  void resume() noexcept;

  /// Ends a step: unnamed calls are numbered from 0 again and the mask budget is renewed.
  void step();
  /// Forgets everything collected. Steps are numbered from `step_number` on.
  void reset(std::int64_t step_number = 0);

  /// The model's layers (handles of intern_layer) in the order in which it runs them. Names calls that reach no
  /// LayerScope, as in compiled code, where all calls are unnamed and make whole passes through these layers.
  void name_by_order(std::vector<std::uint32_t> layers);

  /// Adds a stretch of a stage, where the profiler is on: what StageScope does. Names beyond 256 share one row.
  void add_stage(std::string_view stage, Nanoseconds time) noexcept;

  /// What came since the last call of take_window(), or since the start: the last interval of a server that goes on.
  /// get_stats() shows the whole all the same. Windows belong to one reader.
  [[nodiscard]] Stats take_window();

  /// A snapshot; also valid while running and while other threads run attention.
  [[nodiscard]] Stats get_stats() const;

  /// Differs from that of every other profiler of the process; stays when the profiler is moved.
  [[nodiscard]] std::uint64_t id() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Marks a part of the program that is not attention (tokenise, sample, detokenise) as long as it lives, so that
/// attention's share of the whole is seen: Stats::stages. Must not outlive the profiler, which must not be moved
/// meanwhile.
class HEADSCOPE_EXPORT StageScope {
 public:
  [[nodiscard]] StageScope(AttentionProfiler& profiler, std::string_view stage);
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  ~StageScope();

 private:
  AttentionProfiler& profiler_;
  std::string stage_;
  std::int64_t start_ns_;
};

}  // namespace headscope
