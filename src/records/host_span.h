#pragma once

#include <cstdint>

namespace headscope::records {

/// A stretch of one host thread's time.
struct HostSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  friend bool operator==(const HostSpan&, const HostSpan&) = default;
};

}  // namespace headscope::records
