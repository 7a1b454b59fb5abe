#include "session/collector.h"

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "model/work.h"
#include "session/ring_use.h"
#include "session/watch_word.h"

namespace headscope::session {
namespace {

constexpr std::size_t kFoldAt = decltype(ThreadRing::calls)::kCapacity * 3 / 4;

/// Takes `amount` from what is left, unless there is less.
bool spend(std::atomic<std::int64_t>& budget, std::int64_t amount) noexcept {
  std::int64_t left = budget.load(std::memory_order_relaxed);
  while (left >= amount) {
    if (budget.compare_exchange_weak(left, left - amount, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Collector::Collector() { handle_forks(*this); }

records::Watch Collector::watch() noexcept { return unpack_watch(watched_.load(std::memory_order_relaxed)); }

bool Collector::spend_mask_budget(std::int64_t elements) noexcept { return spend(mask_budget_, elements); }

bool Collector::spend_pattern_budget(std::int64_t scores) noexcept { return spend(pattern_budget_, scores); }

// Rings.

records::LayerRef Collector::next_unnamed_layer() noexcept {
  const RingUse use(*this);
  ThreadRing* ring = use.ring();
  if (ring == nullptr) {
    return {};
  }
  const std::uint64_t order = ring->unnamed.load(std::memory_order_relaxed);
  ring->unnamed.store(order + 1, std::memory_order_relaxed);
  return {.thread = ring->thread(), .order = order};
}

std::uint32_t Collector::this_thread() noexcept {
  const RingUse use(*this);
  return use.ring() == nullptr ? 0 : use.ring()->thread();
}

ThreadRing* Collector::take_ring() noexcept {
  const std::lock_guard lock(control_);
  try {
    // All partials first, so that a failure leaves no ring half made.
    std::array<std::unique_ptr<Partial>, kMaxRunning> partials;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] != nullptr) {
        partials[slot] = std::make_unique<Partial>(*slots_[slot]);
      }
    }
    ThreadRing* ring = rings_.take();
    if (ring == nullptr) {
      return nullptr;
    }
    const std::lock_guard drain_lock(ring->draining);
    const std::uint64_t base = ring->unnamed.load(std::memory_order_relaxed);
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] == nullptr) {
        continue;
      }
      if (ring->partials[slot] == nullptr) {
        ring->partials[slot] = std::move(partials[slot]);
        ring->bases[slot].reset(base);
      } else {
        ring->bases[slot].push(base);  // the thread's numbers begin at 0, though its predecessor's do not end there
      }
    }
    return ring;
  } catch (...) {
    return nullptr;  // out of memory
  }
}

void Collector::park_ring(ThreadRing& ring) noexcept {
  const std::lock_guard lock(control_);
  const std::lock_guard drain_lock(ring.draining);
  drain(ring);
  rings_.park(ring);
}

// Folding.

void Collector::submit(records::AttentionCall&& call) noexcept {
  if (call.sessions == 0) {
    return;
  }
  const RingUse use(*this);
  ThreadRing* ring = use.ring();
  if (ring == nullptr) {
    counters_.hook_error();
    return;
  }
  // A push that fails leaves the call alone.
  while (!ring->calls.try_push(std::move(call))) {  // NOLINT(bugprone-use-after-move)
    if (ring->draining.try_lock()) {
      drain(*ring);
      ring->draining.unlock();
    } else {
      std::this_thread::yield();
    }
  }
  if (ring->calls.size() >= kFoldAt && ring->draining.try_lock()) {
    drain(*ring);
    ring->draining.unlock();
    void (*const settle)() = settle_.load(std::memory_order_relaxed);
    if (settle != nullptr && pending() >= kMostPending) {
      settle();
    }
  }
}

void Collector::drain(ThreadRing& ring) noexcept {
  if (ring.calls.size() == 0) {
    return;
  }
  const std::int64_t begin = base::monotonic_ns();
  std::uint32_t by_device = 0;  // sessions whose calls the device times
  for (std::size_t slot = 0; slot < ring.partials.size(); ++slot) {
    const Partial* partial = ring.partials[slot].get();
    by_device |= partial != nullptr && partial->session->device_clock ? 1U << slot : 0;
  }
  const bool logs = log_.on();
  ring.calls.drain([&](records::AttentionCall&& call) noexcept {
    if (logs) {
      keep_in_log(ring, call);
    }
    const std::uint32_t waiting = call.sessions & by_device;
    // Profilers that did not ask for the device clock see the call as the host saw it.
    call.sessions &= ~by_device;
    if (call.sessions != 0) {
      fold(ring, call);
    }
    if (waiting != 0) {
      call.sessions = waiting;
      keep_pending(ring, std::move(call));
    }
  });
  counters_.folding(base::monotonic_ns() - begin);
}

void Collector::fold(ThreadRing& ring, const records::AttentionCall& call) noexcept {
  std::optional<records::CostedCall> costed;
  std::int64_t costed_for = 0;
  for (int slot = 0; slot < kMaxRunning; ++slot) {
    if ((call.sessions >> slot & 1U) == 0) {
      continue;
    }
    Partial* partial = ring.partials[static_cast<std::size_t>(slot)].get();
    if (partial == nullptr || !partial->session->sees(call, ring.thread())) {
      continue;
    }
    const std::int64_t decode_max_q = partial->session->options.decode_max_q;
    if (!costed || costed_for != decode_max_q) {
      costed = model::cost(call, decode_max_q);
      costed_for = decode_max_q;
    }
    try {
      partial->aggregate.add(*costed, layer_of(call, slot), partial->step);
      partial->step_sums.add(*costed, partial->session->options.memory != Memory::kOff);
    } catch (...) {
      counters_.hook_error();  // out of memory for another row
    }
  }
}

void Collector::keep_in_log(const ThreadRing& ring, const records::AttentionCall& call) noexcept {
  try {
    log_.add(call, ring.thread());
  } catch (...) {
    counters_.hook_error();  // out of memory
  }
}

void Collector::keep_pending(ThreadRing& ring, records::AttentionCall&& call) noexcept {
  if (call.device_ops.outer == 0) {
    fold_untimed(ring, std::move(call));  // another tool had the clock: no record of the device will name the call
    return;
  }
  try {
    PendingCall& pending = ring.pending.emplace_back();
    pending.call = std::move(call);
    pending.thread = ring.thread();
    for (std::size_t slot = 0; slot < pending.steps.size(); ++slot) {
      pending.steps[slot] = ring.partials[slot] == nullptr ? 0 : ring.partials[slot]->step;
    }
    pending_.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    counters_.hook_error();  // out of memory
  }
}

void Collector::fold_untimed(ThreadRing& ring, records::AttentionCall&& call) noexcept {
  call.time_source = TimeSource::kDevice;
  call.time_ns = call.glue_ns = call.other_ns = -1;
  fold(ring, call);
}

void Collector::give_up_pending(ThreadRing& ring, int slot) noexcept {
  const std::uint32_t bit = 1U << slot;
  for (PendingCall& pending : ring.pending) {
    if ((pending.call.sessions & bit) == 0) {
      continue;
    }
    records::AttentionCall given_up = pending.call;
    given_up.sessions = bit;
    fold_untimed(ring, std::move(given_up));
    pending.call.sessions &= ~bit;
  }
  const std::size_t gone =
      std::erase_if(ring.pending, [](const PendingCall& pending) { return pending.call.sessions == 0; });
  pending_.fetch_sub(gone, std::memory_order_relaxed);
}

aggregate::LayerKey Collector::layer_of(const records::AttentionCall& call, int slot) const noexcept {
  using Kind = aggregate::LayerKey::Kind;
  if (call.layer.label != 0) {
    return {Kind::kLabel, call.layer.label};
  }
  if (const ThreadRing* ring = call.layer.thread == 0 ? nullptr : rings_.at(ThreadRing::index_of(call.layer.thread))) {
    const auto number = ring->bases[static_cast<std::size_t>(slot)].number(call.layer.order);
    if (number && *number < aggregate::kMaxUnnamedLayers) {
      return {Kind::kNumber, static_cast<std::uint32_t>(*number)};
    }
  }
  return {};
}

}  // namespace headscope::session
