#pragma once

#include <cstdint>

#include "records/attention_call.h"

namespace headscope::aggregate {

/// The call of a row that took the most memory.
struct PeakCall {
  std::int64_t bytes = 0;  ///< 0: none was measured
  std::int64_t step = 0;
  records::MemoryParts parts;

  void add(std::int64_t call_bytes, std::int64_t call_step, const records::MemoryParts& call_parts) noexcept {
    if (call_bytes > bytes) {
      *this = {call_bytes, call_step, call_parts};
    }
  }
  void merge(const PeakCall& other) noexcept { add(other.bytes, other.step, other.parts); }
};

}  // namespace headscope::aggregate
