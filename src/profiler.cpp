#include "headscope/profiler.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregate/pattern_section.h"
#include "aggregate/snapshot.h"
#include "aggregate/tolerance_section.h"
#include "aggregate/words.h"
#include "base/clock.h"
#include "capture/layers.h"
#include "capture/torch/hooks.h"
#include "capture/torch/scope_memory.h"
#include "device_clock.h"
#include "headscope/error.h"
#include "headscope/version.h"
#include "kv_cache/registry.h"
#include "process.h"
#include "session/collector.h"

namespace headscope {
namespace {

static_assert(AttentionProfiler::kMaxRunning == session::kMaxRunning);

const Options& checked(const Options& options) {
  if (options.decode_max_q < 1) {
    throw Error("Options::decode_max_q is " + std::to_string(options.decode_max_q) +
                "; it is a query length: give 1 or more");
  }
  if (options.mask_count_budget < 0) {
    throw Error("Options::mask_count_budget is " + std::to_string(options.mask_count_budget) +
                "; give 0 to count no masks, or a number of mask elements a step");
  }
  const auto at_least = [](std::string_view name, std::int64_t value, std::int64_t least, std::string_view what) {
    if (value < least) {
      throw Error("Options::" + std::string(name) + " is " + std::to_string(value) + "; " + std::string(what));
    }
  };
  at_least("patterns", options.patterns, 0, "give 0 to sample no attention weights, or n to sample every n-th step");
  if (!(options.tolerance >= 0) || options.tolerance > 1) {
    throw Error("Options::tolerance is " + std::to_string(options.tolerance) +
                "; it is a relative error: give 0 to measure none, or up to 1, such as 0.01");
  }
  if (options.tolerance > 0 && options.patterns == 0) {
    throw Error("Options::tolerance needs Options::patterns, which says in which steps to sample");
  }
  at_least("pattern_rows", options.pattern_rows, 1, "it is a number of query rows: give 1 or more");
  at_least("pattern_budget", options.pattern_budget, 1, "it is a number of scores a step: give 1 or more");
  return options;
}

void fill_measures(const session::Collected& collected, Stats& stats) {
  const session::Counters& counters = collected.counters;
  stats.time.wall = Nanoseconds(collected.on_ns);
  stats.time.steps = collected.steps;
  stats.diagnostics.overhead = Nanoseconds(counters.hooks_ns + counters.folding_ns + counters.sampling_ns);
  if (stats.patterns) {
    stats.patterns->sampling = Nanoseconds(counters.sampling_ns);
  }
  if (collected.on_ns > 0) {
    const auto wall = static_cast<double>(collected.on_ns);
    stats.time.attention_share = static_cast<double>(stats.time.attention.count()) / wall;
    stats.time.recompute_share = static_cast<double>(stats.time.recompute.count()) / wall;
    stats.diagnostics.overhead_share = static_cast<double>(stats.diagnostics.overhead->count()) / wall;
  }
  if (stats.time.attention <= stats.time.wall) {
    stats.time.outside_attention = stats.time.wall - stats.time.attention;
  }
  stats.steps = collected.series.points();
  stats.diagnostics.calls_failed = counters.failed_calls;
  stats.diagnostics.chains_unfinished = counters.unfinished_chains;
  stats.diagnostics.hook_errors = counters.hook_errors;
}

void fill_stages(const session::Collected& collected, Stats& stats) {
  if (collected.stages.empty()) {
    return;
  }
  Nanoseconds marked{};
  for (const auto& [stage, sums] : collected.stages) {
    stats.stages.push_back({.stage = stage, .count = sums.count, .time = Nanoseconds(sums.time_ns)});
    marked += Nanoseconds(sums.time_ns);
  }
  stats.stages.push_back({.stage = "(attention)", .count = stats.total.calls, .time = stats.time.attention});
  // Where threads or stages overlap there is no rest to speak of.
  if (const Nanoseconds known = marked + stats.time.attention; known <= stats.time.wall) {
    stats.stages.push_back({.stage = "(rest)", .count = 1, .time = stats.time.wall - known});
  }
  for (StageRow& row : stats.stages) {
    if (collected.on_ns > 0) {
      row.wall_share = static_cast<double>(row.time.count()) / static_cast<double>(collected.on_ns);
    }
  }
  std::ranges::stable_sort(stats.stages, std::ranges::greater{}, &StageRow::time);
}

void fill_scope_memory(const Options& options, const capture::torch::ScopeMemory& scope, MemorySection& memory) {
  if (options.memory != Memory::kScope) {
    memory.incomplete = "the peak of the whole scope is measured with the option memory: scope";
    return;
  }
  const capture::torch::ScopeMemory::Reading reading = scope.reading();
  for (const auto& [device, peak_bytes] : reading.devices) {
    memory.devices.push_back({aggregate::device_word(device), peak_bytes});
  }
  memory.incomplete = reading.incomplete;
}

}  // namespace

class AttentionProfiler::Impl {
 public:
  explicit Impl(const Options& options) : session(checked(options)), collector(the_collector()) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  /// Throws Error for a profiler that was moved from.
  static Impl& of(const std::unique_ptr<Impl>& impl) {
    if (!impl) {
      throw Error("this AttentionProfiler was moved from; use the one that it was moved to");
    }
    return *impl;
  }

  void start() {
    if (session.options.eager == Eager::kDetail) {
      capture::torch::enable_detail_hooks();
    }
    start_device_clock();
    try {
      collector.start(session);
    } catch (...) {
      stop_device_clock();
      throw;
    }
    measure_scope(collector.on(session));
    std::int64_t never = 0;
    first_start_ns.compare_exchange_strong(never, base::monotonic_ns());
  }

  void stop() noexcept {
    measure_scope(false);
    capture::torch::flush_this_thread();
    if (session.device_clock) {
      collector.pause(session);  // what is recorded from here on would have no times
      settle();
    }
    collector.stop(session);
    stop_device_clock();
  }

  [[nodiscard]] bool wants_device_clock() const noexcept {
    const DeviceTiming wanted = session.options.device_timing;
    return wanted == DeviceTiming::kCupti || wanted == DeviceTiming::kEvents;
  }

  void start_device_clock() {
    if (!wants_device_clock() || collector.running(session)) {
      return;
    }
    DeviceClock& clock = the_device_clock();
    const timeline::Status status =
        clock.join(session.options.device_timing == DeviceTiming::kEvents ? DeviceClock::Want::kEvents
                                                                          : DeviceClock::Want::kKernels);
    session.device_clock = status.enabled();
    device_clock_problem = status.text;
    counts_before = clock.counts();
  }

  void stop_device_clock() noexcept {
    if (std::exchange(session.device_clock, false)) {
      the_device_clock().leave();
    }
  }

  /// Waits for the devices, where they time the calls.
  void settle() noexcept {
    if (session.device_clock) {
      the_device_clock().settle(DeviceClock::Wait::kYes);
    }
  }

  void describe_clock(Diagnostics& diagnostics) {
    if (!wants_device_clock()) {
      diagnostics.device_timing_mode = "host";
      diagnostics.device_timing_reason = "the host's clock around each op; device_timing \"cupti\" asks the device";
      return;
    }
    if (!device_clock_problem.empty()) {
      diagnostics.device_timing_mode = "host";
      diagnostics.device_timing_reason = device_clock_problem;
      return;
    }
    DeviceClock& clock = the_device_clock();
    const DeviceClock::Counts counts = clock.counts();
    const std::string warnings = clock.warnings();
    diagnostics.device_timing_mode = clock.mode();
    const bool by_events = diagnostics.device_timing_mode == "events";
    diagnostics.device_timing_reason =
        !warnings.empty() ? warnings : (by_events ? "CUDA events around each op" : "kernel records of CUPTI");
    diagnostics.kernels_unmatched = counts.unmatched - counts_before.unmatched;
    diagnostics.records_dropped = counts.dropped - counts_before.dropped;
    diagnostics.calls_captured = counts.captured - counts_before.captured;
    diagnostics.kernels_of_unknown_graphs = counts.of_unknown_graphs - counts_before.of_unknown_graphs;
  }

  /// What this thread and the devices still hold back.
  void bring_in() noexcept {
    capture::torch::flush_this_thread();
    settle();
  }

  Stats stats_of(const session::Collected& collected) {
    Stats stats;
    stats.meta = {.headscope_version = std::string(kVersion),
                  .torch_version = capture::torch::torch_version(),
                  .options = session.options};
    describe_clock(stats.diagnostics);
    stats.diagnostics.not_observable = capture::torch::not_observable();
    {
      const std::lock_guard lock(order_mutex);
      aggregate::fill_stats(collected.aggregate, &capture::layer_info, stats, order);
    }
    fill_measures(collected, stats);
    fill_stages(collected, stats);
    fill_scope_memory(session.options, scope_memory, stats.memory);
    if (const std::int64_t since = first_start_ns.load(); since != 0) {
      std::ranges::move(kv_cache::the_registry().rows(since, id), std::back_inserter(stats.kv_cache));
    }
    aggregate::fill_attended_share(stats);
    if (stats.tolerance) {
      aggregate::apply_bound(session.options.tolerance, *stats.tolerance);
    }
    return stats;
  }

  /// The peak of the scope is that of the stretches in which the profiler is on.
  void measure_scope(bool on) noexcept {
    if (session.options.memory == Memory::kScope) {
      on ? scope_memory.start() : scope_memory.stop();
    }
  }

  static inline std::atomic<std::uint64_t> last_id{0};
  const std::uint64_t id = ++last_id;
  std::atomic<std::int64_t> first_start_ns{0};  ///< since the last reset; 0: not started
  session::Session session;
  session::Collector& collector;
  capture::torch::ScopeMemory scope_memory;
  std::string device_clock_problem;  ///< why the last start went without the device clock that was asked for
  DeviceClock::Counts counts_before;
  std::mutex order_mutex;
  std::vector<std::uint32_t> order;  ///< of name_by_order
};

AttentionProfiler::AttentionProfiler(const Options& options) : impl_(std::make_unique<Impl>(options)) {
  if (options.start_now) {
    impl_->start();
  }
}

AttentionProfiler::AttentionProfiler(AttentionProfiler&& other) noexcept = default;
AttentionProfiler& AttentionProfiler::operator=(AttentionProfiler&& other) noexcept = default;
AttentionProfiler::~AttentionProfiler() = default;

void AttentionProfiler::start() { Impl::of(impl_).start(); }

void AttentionProfiler::stop() noexcept {
  if (impl_) {
    impl_->stop();
  }
}

bool AttentionProfiler::running() const noexcept { return impl_ && impl_->collector.running(impl_->session); }

void AttentionProfiler::pause() noexcept {
  if (impl_) {
    impl_->collector.pause(impl_->session);
    impl_->measure_scope(impl_->collector.on(impl_->session));
  }
}

void AttentionProfiler::resume() noexcept {
  if (impl_) {
    impl_->collector.resume(impl_->session);
    impl_->measure_scope(impl_->collector.on(impl_->session));
  }
}

void AttentionProfiler::step() {
  Impl& impl = Impl::of(impl_);
  capture::torch::flush_this_thread();
  impl.collector.step(impl.session);
  kv_cache::the_registry().sample();
}

void AttentionProfiler::reset(std::int64_t step_number) {
  Impl& impl = Impl::of(impl_);
  capture::torch::flush_this_thread();
  impl.collector.reset(impl.session, step_number);
  impl.first_start_ns = impl.collector.running(impl.session) ? base::monotonic_ns() : 0;
  impl.scope_memory.reset();
}

void AttentionProfiler::name_by_order(std::vector<std::uint32_t> layers) {
  Impl& impl = Impl::of(impl_);
  const std::lock_guard lock(impl.order_mutex);
  impl.order = std::move(layers);
}

Stats AttentionProfiler::get_stats() const {
  Impl& impl = Impl::of(impl_);
  impl.bring_in();
  return impl.stats_of(impl.collector.collect(impl.session));
}

Stats AttentionProfiler::take_window() {
  Impl& impl = Impl::of(impl_);
  impl.bring_in();
  return impl.stats_of(impl.collector.take_window(impl.session));
}

std::uint64_t AttentionProfiler::id() const noexcept { return impl_ ? impl_->id : 0; }

void AttentionProfiler::add_stage(std::string_view stage, Nanoseconds time) noexcept {
  if (impl_) {
    impl_->collector.add_stage(impl_->session, stage, time.count());
  }
}

StageScope::StageScope(AttentionProfiler& profiler, std::string_view stage)
    : profiler_(profiler), stage_(stage), start_ns_(base::monotonic_ns()) {}

StageScope::~StageScope() { profiler_.add_stage(stage_, Nanoseconds(base::monotonic_ns() - start_ns_)); }

}  // namespace headscope
