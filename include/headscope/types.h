#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "headscope/export.h"

namespace headscope {

/// An exact sum of bytes or FLOPs. 128 bits: a week of a large training job overflows 64.
__extension__ using Count = unsigned __int128;

using Nanoseconds = std::chrono::nanoseconds;

/// A size that may vary within a row.
struct Range {
  std::int64_t min = 0;
  std::int64_t max = 0;
  double mean = 0.0;

  friend bool operator==(const Range&, const Range&) = default;
};

/// How a figure came about.
enum class Provenance : std::uint8_t {
  kMeasured,   ///< read from a clock or an allocator
  kModelled,   ///< exact arithmetic on shapes, lengths and masks
  kEstimated,  ///< a stated approximation
};

/// Which pass of training a call belongs to.
enum class Direction : std::uint8_t {
  kForward,
  kBackward,
  kRecompute,  ///< a forward repeated inside a backward pass (activation checkpointing)
};

/// What part of a model's work a call is; docs/metrics.md gives the rules in the order they apply.
enum class Phase : std::uint8_t {
  kUnknown,
  kPrefill,
  kChunkedPrefill,
  kDecode,
  kEncode,
  kCross,
  kMixed,  ///< a varlen batch that holds several of the others
};

/// Which clock a time is of.
enum class TimeSource : std::uint8_t {
  kHost,    ///< the op's wall time on the host
  kDevice,  ///< the kernels' own times
  kEvents,  ///< between an event before the op on its stream and one after it: gaps between its kernels count too
};

/// The words used in reports: "measured", "backward", "chunked_prefill", "host".
HEADSCOPE_EXPORT std::string_view to_string(Provenance provenance) noexcept;
HEADSCOPE_EXPORT std::string_view to_string(Direction direction) noexcept;
HEADSCOPE_EXPORT std::string_view to_string(Phase phase) noexcept;
HEADSCOPE_EXPORT std::string_view to_string(TimeSource source) noexcept;

}  // namespace headscope
