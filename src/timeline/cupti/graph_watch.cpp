#include "timeline/cupti/graph_watch.h"

#include <unistd.h>

namespace headscope::timeline::cupti {

bool GraphWatch::begin(const Api& api, void* subscriber, std::string& failure) {
  if (api.enable_callback == nullptr || api.get_graph_node_id == nullptr) {
    failure = "this CUPTI has no callbacks for nodes of graphs";
    return false;
  }
  api_.store(&api, std::memory_order_release);
  for (const std::uint32_t id : {abi::kGraphNodeCreated, abi::kGraphNodeCloned}) {
    if (const abi::Result result = api.enable_callback(1, subscriber, abi::kResourceDomain, id);
        result != abi::kSuccess) {
      failure = describe_failure(api, "cuptiEnableCallback", result);
      return false;
    }
  }
  return true;
}

void GraphWatch::end(void* subscriber) {
  const Api* api = api_.load(std::memory_order_acquire);
  for (const std::uint32_t id : {abi::kGraphNodeCreated, abi::kGraphNodeCloned}) {
    api->enable_callback(0, subscriber, abi::kResourceDomain, id);
  }
}

std::uint64_t GraphWatch::id_of(void* node) const noexcept {
  std::uint64_t id = 0;
  const Api* api = api_.load(std::memory_order_acquire);
  return api != nullptr && api->get_graph_node_id(node, &id) == abi::kSuccess ? id : 0;
}

void GraphWatch::on_event(void* watch, std::uint32_t domain, std::uint32_t id, const void* data) noexcept {
  if (domain != abi::kResourceDomain || data == nullptr) {
    return;
  }
  const abi::GraphData* graph = static_cast<const abi::ResourceData*>(data)->descriptor;
  if (graph == nullptr) {
    return;
  }
  auto& self = *static_cast<GraphWatch*>(watch);
  if (id == abi::kGraphNodeCreated) {
    const records::Capture capture{self.marker_.current(), OpMarker::end_op() - 1,
                                   static_cast<std::uint64_t>(::gettid())};
    self.nodes_.created(self.id_of(graph->node), capture, graph->node_type <= abi::kLastWorkingNodeType);
  } else if (id == abi::kGraphNodeCloned) {
    self.nodes_.cloned(self.id_of(graph->original_node), self.id_of(graph->node));
  }
}

}  // namespace headscope::timeline::cupti
