#pragma once

#include <atomic>

#include "timeline/cupti/library.h"
#include "timeline/cupti/node_table.h"
#include "timeline/cupti/op_marker.h"

namespace headscope::timeline::cupti {

/// Learns which op captured which node of a CUDA graph, or after which op it was captured, from callbacks of CUPTI: one
/// where a node is created, on the capturing thread and inside the op, one where instantiation copies it. The node's id
/// is in the record of each kernel that replays it.
class GraphWatch {
 public:
  explicit GraphWatch(const OpMarker& marker) : marker_(marker) {}

  /// Asks for the callbacks; false, with `failure` set, when CUPTI does not give them.
  bool begin(const Api& api, void* subscriber, std::string& failure);
  void end(void* subscriber);

  [[nodiscard]] NodeTable& nodes() noexcept { return nodes_; }

  /// For cuptiSubscribe, with `this` as user data.
  static void on_event(void* watch, std::uint32_t domain, std::uint32_t id, const void* data) noexcept;

 private:
  [[nodiscard]] std::uint64_t id_of(void* node) const noexcept;

  const OpMarker& marker_;
  std::atomic<const Api*> api_{nullptr};
  NodeTable nodes_;
};

}  // namespace headscope::timeline::cupti
