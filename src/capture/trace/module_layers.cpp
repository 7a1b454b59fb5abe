#include "capture/trace/module_layers.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "headscope/annotate.h"

namespace headscope::capture::trace {

ModuleLayers::ModuleLayers(const records::TraceRecording& recording)
    : recording_(recording), labels_(recording.names.size(), 0) {
  std::vector<std::size_t> open;
  for (const records::ModuleSpan& span : recording.modules) {
    while (!open.empty()) {
      const records::ModuleSpan& last = *nodes_[open.back()].span;
      if (last.thread == span.thread && span.start_ns < last.end_ns) {
        break;
      }
      open.pop_back();
    }
    open.push_back(nodes_.size());
    nodes_.push_back({&span, open.size() > 1 ? open[open.size() - 2] : kNone});
  }
}

std::uint32_t ModuleLayers::label(std::uint32_t thread, std::int64_t start_ns, std::int64_t end_ns) {
  // The last module that began no later, or one of those around it.
  const auto after = std::partition_point(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return std::tie(node.span->thread, node.span->start_ns) <= std::tie(thread, start_ns);
  });
  std::size_t at = after == nodes_.begin() ? kNone : static_cast<std::size_t>(after - nodes_.begin()) - 1;
  while (at != kNone && (nodes_[at].span->thread != thread || nodes_[at].span->end_ns < end_ns)) {
    at = nodes_[at].parent;
  }
  if (at == kNone) {
    return 0;
  }
  const std::uint32_t name = nodes_[at].span->name;
  if (labels_[name] == 0) {
    LayerInfo info;
    info.name = std::string(recording_.names[name]);
    labels_[name] = intern_layer(info);
  }
  return labels_[name];
}

}  // namespace headscope::capture::trace
