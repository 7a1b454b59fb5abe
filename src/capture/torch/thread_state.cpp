#include "capture/torch/thread_state.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace headscope::capture::torch {
namespace {

constinit std::atomic<records::CallSink*> g_sink{nullptr};
constinit std::atomic<records::CallObserver*> g_observer{nullptr};

std::uint64_t open_device_op(ThreadState& state, const records::Device& device) noexcept {
  const std::uint64_t op = g_observer.load(std::memory_order_acquire)->open_op(device);
  if (op != 0) {
    state.newest_device_op = op;
  }
  return op;
}

}  // namespace

ThreadState& thread_state() noexcept {
  thread_local ThreadState state;
  return state;
}

std::uint32_t system_thread(ThreadState& state) noexcept {
  if (state.system_thread == 0) {
    state.system_thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  }
  return state.system_thread;
}

records::CallSink* sink() noexcept { return g_sink.load(std::memory_order_acquire); }

void set_sink(records::CallSink& sink) noexcept { g_sink.store(&sink, std::memory_order_release); }

void set_observer(records::CallObserver& observer) noexcept { g_observer.store(&observer, std::memory_order_release); }

ForwardLinks& forward_links() noexcept {
  // Leaked: hooks of other threads may use it while the process exits.
  static auto* const links = new ForwardLinks;
  return *links;
}

OpenForwards& open_forwards() noexcept {
  static auto* const forwards = new OpenForwards;
  return *forwards;
}

Redispatch::Redispatch(ThreadState& state, const records::Watch& watch, const records::Device& device,
                       const ExpectedAllocations& expected, Inside inside) noexcept
    : state_(state),
      metered_(watch.memory && state.meter.start(expected)),
      suppression_(inside == Inside::kSuppressed ? 1 : 0),
      device_op_(watch.device ? open_device_op(state, device) : 0),
      start_ns_(base::monotonic_ns()) {
  state_.suppressed += suppression_;
}

void Redispatch::stop() noexcept {
  end_ns_ = base::monotonic_ns();
  open_ = false;
  if (device_op_ != 0) {
    g_observer.load(std::memory_order_relaxed)->close_op(device_op_);
  }
  state_.suppressed -= suppression_;
  if (metered_) {
    memory_ = state_.meter.stop();
  }
}

records::OpRange Redispatch::device_ops() const noexcept {
  return device_op_ == 0 ? records::OpRange{}
                         : records::OpRange{.outer = device_op_, .first = device_op_, .last = state_.newest_device_op};
}

Redispatch::~Redispatch() {
  if (open_) {
    stop();
  }
}

}  // namespace headscope::capture::torch
