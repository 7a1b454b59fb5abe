#pragma once

#include <array>
#include <cstdint>

#include "records/attention_call.h"
#include "session/session.h"

namespace headscope::session {

/// A call that waits for the device's records before it is folded.
struct PendingCall {
  records::AttentionCall call;
  std::uint32_t thread = 0;                       ///< of the ring that recorded it; 0: not known
  std::array<std::int64_t, kMaxRunning> steps{};  ///< that it belongs to, by slot
};

}  // namespace headscope::session
