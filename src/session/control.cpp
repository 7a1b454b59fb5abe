#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "headscope/error.h"
#include "model/work.h"
#include "session/collector.h"
#include "session/watch_word.h"

// The Collector's members that start, stop and read sessions.
namespace headscope::session {
namespace {

/// Moves what was detached into `collected`.
void settle(Session& session) {
  while (session.detached != nullptr) {
    session.collected.merge(session.detached->aggregate);
    session.step_sums.merge(session.detached->step_sums);
    session.detached = std::move(session.detached->next);
  }
}

/// Time on since the last reset.
std::int64_t on_ns(const Session& session, std::int64_t now_ns) noexcept {
  return session.on_ns + (session.on_since_ns ? now_ns - *session.on_since_ns : 0);
}

/// Counters since the last reset.
Counters counted(const Session& session, const LiveCounters& now) noexcept {
  Counters sum = session.counted;
  if (session.on_since_ns) {
    sum += now.read() - session.on_since_counters;
  }
  return sum;
}

void finish_stretch(Session& session, std::int64_t now_ns, const Counters& now) noexcept {
  if (session.on_since_ns) {
    session.on_ns = on_ns(session, now_ns);
    session.counted += now - session.on_since_counters;
    session.on_since_ns.reset();
  }
}

}  // namespace

template <class Visit>
void Collector::visit_drained(Visit&& visit) {
  rings_.for_each([&](ThreadRing& ring) {
    const std::lock_guard lock(ring.draining);
    drain(ring);
    visit(ring);
  });
}

void Collector::start(Session& session) {
  const std::uint32_t owner = this_thread();  // before the lock, which a thread's first call takes
  const std::lock_guard lock(control_);
  if (session.running()) {
    return;
  }
  const auto free = std::ranges::find(slots_, nullptr);
  if (free == slots_.end()) {
    throw Error("cannot start: " + std::to_string(kMaxRunning) +
                " attention profilers are running; stop one of them first");
  }
  settle(session);
  const auto slot = static_cast<std::size_t>(free - slots_.begin());
  session.owner_thread = owner;
  session.started_ns = base::monotonic_ns();
  session.pauses = 0;
  session.slot = static_cast<int>(slot);
  *free = &session;
  try {
    rings_.for_each([&](ThreadRing& ring) {
      auto partial = std::make_unique<Partial>(session);
      const std::lock_guard drain_lock(ring.draining);
      ring.bases[slot].reset(ring.unnamed.load(std::memory_order_relaxed));
      ring.partials[slot] = std::move(partial);
    });
  } catch (...) {
    detach(session);
    throw;
  }
  switch_on(session);
  renew_budgets();
}

void Collector::stop(Session& session) noexcept {
  const std::lock_guard lock(control_);
  if (!session.running()) {
    return;
  }
  end(session);
}

bool Collector::running(const Session& session) noexcept {
  const std::lock_guard lock(control_);
  return session.running();
}

bool Collector::on(const Session& session) noexcept {
  const std::lock_guard lock(control_);
  return session.on_since_ns.has_value();
}

void Collector::pause(Session& session) noexcept {
  const std::lock_guard lock(control_);
  if (session.running() && session.pauses++ == 0) {
    publish(&session);
    finish_stretch(session, base::monotonic_ns(), counters_.read());
  }
}

void Collector::resume(Session& session) noexcept {
  const std::lock_guard lock(control_);
  if (session.running() && session.pauses > 0 && --session.pauses == 0) {
    switch_on(session);
  }
}

void Collector::step(Session& session) {
  const std::lock_guard lock(control_);
  if (!session.running()) {
    throw Error("step() on a stopped profiler; call start() first, or step() inside its scope");
  }
  const auto slot = static_cast<std::size_t>(session.slot);
  const std::int64_t ended = session.step_number++;
  ++session.steps;
  aggregate::StepSums sums = std::exchange(session.step_sums, {});
  visit_drained([&](ThreadRing& ring) {
    Partial& partial = *ring.partials[slot];
    ring.bases[slot].push(ring.unnamed.load(std::memory_order_relaxed));
    sums.merge(std::exchange(partial.step_sums, {}));
    partial.step = session.step_number;
  });
  const std::int64_t on = on_ns(session, base::monotonic_ns());
  const std::int64_t wall = on - std::exchange(session.on_ns_before_step, on);
  if (wall > 0 || !sums.empty()) {
    session.series.add(ended, wall, sums);
  }
  publish();  // whether the step is sampled
  renew_budgets();
}

void Collector::reset(Session& session, std::int64_t step_number) {
  const std::lock_guard lock(control_);
  session.collected = aggregate::Aggregate(session.wanted());
  session.windows = aggregate::Aggregate(session.wanted());
  session.stages.clear();
  session.window = {.step_number = step_number};
  session.detached.reset();
  session.step_sums = {};
  session.series = {};
  session.steps = 0;
  session.step_number = step_number;
  session.on_ns = 0;
  session.on_ns_before_step = 0;
  session.counted = {};
  if (!session.running()) {
    return;
  }
  const auto slot = static_cast<std::size_t>(session.slot);
  const std::int64_t now = base::monotonic_ns();
  session.started_ns = now;
  visit_drained([&](ThreadRing& ring) {
    ring.partials[slot] = std::make_unique<Partial>(session);
    ring.bases[slot].push(ring.unnamed.load(std::memory_order_relaxed));
  });
  if (session.on_since_ns) {
    session.on_since_ns = now;
    session.on_since_counters = counters_.read();
  }
  publish();
  renew_budgets();
}

Collected Collector::collect(Session& session) {
  const std::lock_guard lock(control_);
  settle(session);
  Collected collected{.aggregate = aggregate::Aggregate(session.wanted()),
                      .series = session.series,
                      .on_ns = on_ns(session, base::monotonic_ns()),
                      .steps = session.steps,
                      .counters = counted(session, counters_),
                      .stages = session.stages};
  collected.aggregate.merge(session.windows);
  collected.aggregate.merge(session.collected);
  if (session.running()) {
    const auto slot = static_cast<std::size_t>(session.slot);
    visit_drained([&](ThreadRing& ring) { collected.aggregate.merge(ring.partials[slot]->aggregate); });
  }
  return collected;
}

Collected Collector::take_window(Session& session) {
  const std::lock_guard lock(control_);
  settle(session);
  Collected window{.aggregate = std::exchange(session.collected, aggregate::Aggregate(session.wanted()))};
  if (session.running()) {
    const auto slot = static_cast<std::size_t>(session.slot);
    visit_drained([&](ThreadRing& ring) {
      window.aggregate.merge(std::exchange(ring.partials[slot]->aggregate, aggregate::Aggregate(session.wanted())));
    });
  }
  session.windows.merge(window.aggregate);

  const WindowStart start = std::exchange(session.window, {.on_ns = on_ns(session, base::monotonic_ns()),
                                                           .steps = session.steps,
                                                           .step_number = session.step_number,
                                                           .counters = counted(session, counters_),
                                                           .stages = session.stages});
  window.series = session.series.since(start.step_number);
  window.on_ns = session.window.on_ns - start.on_ns;
  window.steps = session.steps - start.steps;
  window.counters = session.window.counters - start.counters;
  for (const auto& [stage, sums] : session.stages) {
    const auto before = start.stages.find(stage);
    const StageSums earlier = before == start.stages.end() ? StageSums{} : before->second;
    if (sums.count > earlier.count) {
      window.stages[stage] = {sums.count - earlier.count, sums.time_ns - earlier.time_ns};
    }
  }
  return window;
}

void Collector::add_stage(Session& session, std::string_view stage, std::int64_t time_ns) noexcept {
  const std::lock_guard lock(control_);
  if (!session.on_since_ns) {
    return;
  }
  try {
    auto known = session.stages.find(stage);
    if (known == session.stages.end()) {
      known = session.stages.emplace(session.stages.size() < kMaxStages ? stage : "(others)", StageSums{}).first;
    }
    ++known->second.count;
    known->second.time_ns += time_ns;
  } catch (...) {
    counters_.hook_error();  // out of memory
  }
}

std::vector<PendingCall> Collector::take_pending() {
  const std::lock_guard lock(control_);
  std::vector<PendingCall> taken;
  visit_drained([&](ThreadRing& ring) {
    std::ranges::move(ring.pending, std::back_inserter(taken));
    pending_.fetch_sub(std::exchange(ring.pending, {}).size(), std::memory_order_relaxed);
  });
  return taken;
}

void Collector::begin_log() noexcept {
  const std::lock_guard lock(control_);
  visit_drained([](ThreadRing&) {});  // what was made before is no part of it
  log_.begin();
}

std::vector<LoggedCall> Collector::end_log() noexcept {
  const std::lock_guard lock(control_);
  visit_drained([](ThreadRing&) {});
  return log_.end();
}

PendingCall Collector::pending_of(records::AttentionCall&& call) noexcept {
  const std::lock_guard lock(control_);
  PendingCall pending;
  pending.call = std::move(call);
  for (int slot = 0; slot < kMaxRunning; ++slot) {
    const Session* session = slots_[static_cast<std::size_t>(slot)];
    if (session != nullptr && session->device_clock) {
      pending.call.sessions |= 1U << slot;
      pending.steps[static_cast<std::size_t>(slot)] = session->step_number;
    }
  }
  return pending;
}

void Collector::add(const std::vector<PendingCall>& calls) noexcept {
  const std::lock_guard lock(control_);
  for (const PendingCall& pending : calls) {
    for (int slot = 0; slot < kMaxRunning; ++slot) {
      Session* session = slots_[static_cast<std::size_t>(slot)];
      if ((pending.call.sessions >> slot & 1U) == 0 || session == nullptr ||
          !session->sees(pending.call, pending.thread)) {
        continue;
      }
      const records::CostedCall costed = model::cost(pending.call, session->options.decode_max_q);
      const std::int64_t step = pending.steps[static_cast<std::size_t>(slot)];
      aggregate::StepSums sums;
      sums.add(costed, session->options.memory != Memory::kOff);
      try {
        session->collected.add(costed, layer_of(pending.call, slot), step);
        if (step == session->step_number) {
          session->step_sums.merge(sums);
        } else {
          session->series.add_to(step, sums);
        }
      } catch (...) {
        counters_.hook_error();  // out of memory for another row
      }
    }
  }
}

std::size_t Collector::rings() {
  const std::lock_guard lock(control_);
  return rings_.size();
}

// A folder reads the session through a ring's partial while it holds the ring's flag, so that once every ring was
// locked here nobody can.
void Collector::detach(Session& session) noexcept {
  const auto slot = static_cast<std::size_t>(session.slot);
  visit_drained([&](ThreadRing& ring) {
    give_up_pending(ring, session.slot);
    if (std::unique_ptr<Partial> partial = std::move(ring.partials[slot])) {
      partial->next = std::move(session.detached);
      session.detached = std::move(partial);
    }
  });
  slots_[slot] = nullptr;
  session.slot = -1;
  session.pauses = 0;
}

void Collector::end(Session& session) noexcept {
  publish(&session);
  const std::int64_t now = base::monotonic_ns();
  detach(session);
  finish_stretch(session, now, counters_.read());
}

void Collector::switch_on(Session& session) noexcept {
  session.on_since_counters = counters_.read();
  session.on_since_ns = base::monotonic_ns();
  publish();
}

void Collector::publish(const Session* but) noexcept {
  std::uint32_t word = 0;
  for (const Session* session : slots_) {
    if (session != nullptr && session != but && session->on_since_ns) {
      word |= pack_watch(*session);
    }
  }
  watched_.store(word, std::memory_order_release);
}

void Collector::renew_budgets() noexcept {
  Options most{.mask_count_budget = 0, .pattern_rows = 0, .pattern_budget = 0};
  for (const Session* session : slots_) {
    if (session == nullptr) {
      continue;
    }
    const Options& options = session->options;
    most.mask_count_budget = std::max(most.mask_count_budget, options.mask_count_budget);
    if (options.patterns > 0) {
      most.pattern_rows = std::max(most.pattern_rows, options.pattern_rows);
      most.pattern_budget = std::max(most.pattern_budget, options.pattern_budget);
    }
  }
  mask_budget_.store(most.mask_count_budget, std::memory_order_relaxed);
  pattern_rows_.store(most.pattern_rows, std::memory_order_relaxed);
  pattern_budget_.store(most.pattern_budget, std::memory_order_relaxed);
}

}  // namespace headscope::session
