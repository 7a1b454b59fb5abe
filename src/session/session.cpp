#include "session/session.h"

#include <string_view>

namespace headscope::session {
namespace {

// The variant of hand-written chains; the math path is seen through its composite op whatever the option says.
constexpr std::string_view kHandWritten = "eager";

}  // namespace

Partial::Partial(Session& owner) : session(&owner), aggregate(owner.wanted()), step(owner.step_number) {}

bool Session::sees(const records::AttentionCall& call, std::uint32_t thread) const noexcept {
  if (call.start_ns < started_ns.load(std::memory_order_relaxed)) {
    return false;
  }
  if (options.eager == Eager::kOff && call.op->variant == kHandWritten) {
    return false;
  }
  if (options.threads == Threads::kAll || thread == owner_thread) {
    return true;
  }
  // The autograd engine may run a backward on a thread of its own; its layer is the forward's, with its thread.
  return call.direction != Direction::kForward && call.layer.thread == owner_thread;
}

}  // namespace headscope::session
