#include "timeline/cupti/op_marker.h"

#include <cstddef>

#include "base/op_ids.h"
#include "timeline/cupti/op_stack.h"

namespace headscope::timeline::cupti {
namespace {

constinit thread_local OpStack t_open;

/// CUPTI keeps a thread's stack when a session ends, and would put its ids on this session's calls.
void drain(const Api& api) noexcept {
  constexpr std::size_t kMostLeft = 2 * OpStack::kMaxDepth;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < kMostLeft && api.pop_external_id(abi::kCustom2, &last) == abi::kSuccess; ++i) {
  }
}

}  // namespace

void OpMarker::begin(const Api& api) noexcept {
  api_.store(&api, std::memory_order_relaxed);
  unmarked_.store(0, std::memory_order_relaxed);
  // The session's token is an id too, so that two sessions without ops differ.
  const std::uint64_t session = base::next_op_id();
  first_.store(session + 1, std::memory_order_relaxed);
  session_.store(session, std::memory_order_release);
}

void OpMarker::end() noexcept { session_.store(0, std::memory_order_release); }

std::uint64_t OpMarker::open() noexcept {
  const std::uint64_t session = session_.load(std::memory_order_acquire);
  if (session == 0) {
    return 0;
  }
  const Api& api = *api_.load(std::memory_order_relaxed);
  if (t_open.enter(session)) {
    drain(api);
  }
  if (t_open.full()) {
    unmarked_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const std::uint64_t op = base::next_op_id();
  if (api.push_external_id(abi::kCustom2, op) != abi::kSuccess) {
    unmarked_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  t_open.push(op);
  return op;
}

void OpMarker::close(std::uint64_t op) noexcept {
  const std::uint64_t session = session_.load(std::memory_order_acquire);
  if (session == 0 || op == 0) {
    return;
  }
  const Api& api = *api_.load(std::memory_order_relaxed);
  std::uint64_t last = 0;
  for (std::size_t pops = t_open.close(session, op); pops > 0; --pops) {
    api.pop_external_id(abi::kCustom2, &last);
  }
}

std::uint64_t OpMarker::current() const noexcept {
  const std::uint64_t session = session_.load(std::memory_order_acquire);
  return session == 0 ? 0 : t_open.current(session);
}

std::uint64_t OpMarker::end_op() noexcept { return base::end_of_op_ids(); }

}  // namespace headscope::timeline::cupti
