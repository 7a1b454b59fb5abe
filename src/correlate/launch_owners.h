#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "correlate/correlate.h"

namespace headscope::correlate {

/// What a launch is part of.
struct LaunchOwner {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t call = kNone;  ///< index of its window
  bool between_ops = false;    ///< glue of a chain
};

/// The owner of each launch: the window that has its op, else the window of the launching thread that holds its start,
/// the innermost one where windows nest. Launches of whole graphs have none.
std::vector<LaunchOwner> owners_of(std::span<const records::Launch> launches, std::span<const CallWindow> windows);

/// Launches by correlation id.
class LaunchIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit LaunchIndex(std::span<const records::Launch> launches);

  /// The launch of that id; of several the first that was recorded. kNone: none, or `correlation` is 0.
  [[nodiscard]] std::uint32_t find(std::uint32_t correlation) const noexcept;

 private:
  struct Entry {
    std::uint32_t correlation = 0;
    std::uint32_t launch = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace headscope::correlate
