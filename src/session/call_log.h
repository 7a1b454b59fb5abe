#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/spin_flag.h"
#include "records/attention_call.h"

namespace headscope::session {

struct LoggedCall {
  records::AttentionCall call;
  std::uint32_t thread = 0;  ///< of the ring that recorded it
};

/// Calls one by one, from begin() to end(), whoever watches them.
class CallLog {
 public:
  /// Later calls are left out; 30 MiB.
  static constexpr std::size_t kMostCalls = 65'536;

  void begin() noexcept;
  [[nodiscard]] bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// Throws std::bad_alloc.
  void add(const records::AttentionCall& call, std::uint32_t thread);
  [[nodiscard]] std::vector<LoggedCall> end() noexcept;

 private:
  base::SpinFlag lock_;
  std::atomic<bool> on_{false};
  std::vector<LoggedCall> calls_;
};

}  // namespace headscope::session
