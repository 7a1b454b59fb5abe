#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/trace/trace_calls.h"

namespace headscope::capture::trace {

/// Forward calls by autograd's sequence number, which a forward op shares with its node. Numbers count on each
/// thread, and one of torch.compile covers all calls of a graph.
class SequenceLinks {
 public:
  void add_forward(std::int64_t sequence, std::size_t call, std::uint32_t thread);

  /// Takes the last forward of that number which no backward has taken, of the geometry of `backward` (any, where one
  /// of the two has none) and not after it. `forward_thread`: the number by which nodes call the forward's thread.
  /// None where two threads have such a forward and nothing tells which one is meant.
  std::optional<std::size_t> take(std::int64_t sequence, std::uint32_t forward_thread,
                                  const records::AttentionCall& backward, const std::vector<TraceCall>& calls);

 private:
  struct OfThread {
    std::uint32_t thread = 0;
    std::vector<std::size_t> calls;
  };

  std::unordered_map<std::int64_t, std::vector<OfThread>> forwards_;
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;  // nodes' number → index of the trace's thread
};

}  // namespace headscope::capture::trace
