#include "session/call_log.h"

#include <mutex>
#include <utility>

namespace headscope::session {

void CallLog::begin() noexcept {
  const std::lock_guard lock(lock_);
  calls_.clear();
  on_.store(true, std::memory_order_relaxed);
}

void CallLog::add(const records::AttentionCall& call, std::uint32_t thread) {
  const std::lock_guard lock(lock_);
  if (on() && calls_.size() < kMostCalls) {
    calls_.push_back({call, thread});
  }
}

std::vector<LoggedCall> CallLog::end() noexcept {
  const std::lock_guard lock(lock_);
  on_.store(false, std::memory_order_relaxed);
  return std::exchange(calls_, {});
}

}  // namespace headscope::session
