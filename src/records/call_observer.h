#pragma once

#include <cstdint>

#include "records/attention_call.h"

namespace headscope::records {

/// Told of the ops that hooks watch while they run, so that what they launch can be known by their ids.
/// No member locks or throws.
class CallObserver {
 public:
  CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  virtual ~CallObserver() = default;

  /// Begins an op on the calling thread, whose tensors are on `device`: what it launches from here on has this id. Ops
  /// nest. Ids grow and are never used twice in a process; 0 when nothing is recorded.
  [[nodiscard]] virtual std::uint64_t open_op(const Device& device) noexcept = 0;
  /// Ends it, and ops inside it that were left open. Ignores 0, ids of other threads and of earlier sessions.
  virtual void close_op(std::uint64_t id) noexcept = 0;
};

}  // namespace headscope::records
