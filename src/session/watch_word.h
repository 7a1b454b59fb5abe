#pragma once

#include <cstdint>

#include "records/call_sink.h"
#include "session/session.h"

/// records::Watch in one word, so that a hook learns all of it in one load.
namespace headscope::session {

inline constexpr std::uint32_t kSessionBits = (1U << kMaxRunning) - 1;
inline constexpr std::uint32_t kMemoryBit = 1U << kMaxRunning;
inline constexpr std::uint32_t kEagerBit = kMemoryBit << 1;
inline constexpr std::uint32_t kDetailBit = kMemoryBit << 2;
inline constexpr std::uint32_t kDeviceBit = kMemoryBit << 3;
inline constexpr std::uint32_t kSampledBit = kMemoryBit << 4;
inline constexpr std::uint32_t kToleranceBit = kMemoryBit << 5;

/// What one session adds to the word: or them.
inline std::uint32_t pack_watch(const Session& session) noexcept {
  std::uint32_t word = 1U << session.slot;
  word |= session.options.memory != Memory::kOff ? kMemoryBit : 0;
  word |= session.options.eager != Eager::kOff ? kEagerBit : 0;
  word |= session.options.eager == Eager::kDetail ? kDetailBit : 0;
  word |= session.device_clock ? kDeviceBit : 0;
  if (session.samples(session.step_number)) {
    word |= kSampledBit | (session.options.tolerance > 0 ? kToleranceBit : 0);
  }
  return word;
}

inline records::Watch unpack_watch(std::uint32_t word) noexcept {
  return {.sessions = word & kSessionBits,
          .memory = (word & kMemoryBit) != 0,
          .eager = (word & kEagerBit) != 0,
          .detail = (word & kDetailBit) != 0,
          .device = (word & kDeviceBit) != 0,
          .sampled = (word & kSampledBit) != 0,
          .tolerance = (word & kToleranceBit) != 0};
}

}  // namespace headscope::session
