#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "correlate/correlate.h"
#include "correlate/launch_owners.h"

namespace headscope::correlate {

/// The windows whose ops have ids, by op. Refers to them.
class OpOwners {
 public:
  explicit OpOwners(std::span<const CallWindow> windows);

  /// The window that has the op of the launch.
  [[nodiscard]] LaunchOwner of(const records::Launch& launch) const;
  /// The window that has the op in which a graph's node was captured, or two ops between which it was.
  [[nodiscard]] LaunchOwner of(const records::Capture& capture) const;

 private:
  LaunchOwner of(std::uint64_t thread, std::uint64_t op, bool in_op) const;

  std::span<const CallWindow> windows_;
  std::vector<std::uint32_t> by_op_;  // by thread and first id
};

}  // namespace headscope::correlate
