#include "aggregate/memory_section.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

namespace headscope::aggregate {
namespace {

constexpr std::size_t kMaxSpikes = 16;

/// The parts that are not 0, under their names in Stats.
std::vector<MemoryPart> named_parts(const records::MemoryParts& parts) {
  const std::array<std::pair<std::string_view, std::int64_t>, 7> all{{{"score_matrix", parts.score_matrix},
                                                                      {"mask", parts.mask},
                                                                      {"kv_copy", parts.kv_copy},
                                                                      {"upcast", parts.upcast},
                                                                      {"gradient", parts.gradient},
                                                                      {"output", parts.output},
                                                                      {"workspace", parts.workspace}}};
  std::vector<MemoryPart> named;
  for (const auto& [name, bytes] : all) {
    if (bytes > 0) {
      named.push_back({.cause = std::string(name), .bytes = bytes});
    }
  }
  std::ranges::stable_sort(named, std::ranges::greater{}, &MemoryPart::bytes);
  return named;
}

void add_spike(const RowKey& key, const LayerTable::Layer& layer, const PeakCall& call, MemorySection& memory) {
  if (call.bytes == 0) {
    return;
  }
  MemorySpike spike{.layer = layer.name,
                    .layer_index = layer.index,
                    .variant = key.op->variant,
                    .direction = key.direction,
                    .step = call.step,
                    .bytes = call.bytes,
                    .parts = named_parts(call.parts)};
  spike.cause = spike.parts.front().cause;
  memory.spikes.push_back(std::move(spike));
}

}  // namespace

void fill_memory(const Aggregate& aggregate, const LayerTable& layers, MemorySection& memory) {
  std::map<std::int64_t, LayerPeak> peaks;
  for (const auto& slot : aggregate.rows().slots()) {
    const LayerTable::Layer& layer = layers.of(slot->key.layer);
    add_spike(slot->key, layer, slot->entry.peak_call(), memory);
    add_spike(slot->key, layer, slot->entry.copies_before(), memory);
    LayerPeak& peak = peaks.try_emplace(layer.rank, LayerPeak{layer.name, layer.index, 0}).first->second;
    const std::optional<std::int64_t> bytes = slot->entry.peak_bytes();
    peak.peak_bytes = peak.peak_bytes && bytes ? std::optional(std::max(*peak.peak_bytes, *bytes)) : std::nullopt;
  }
  for (auto& [rank, peak] : peaks) {
    memory.layers.push_back(std::move(peak));
  }
  std::ranges::sort(memory.spikes, [](const MemorySpike& a, const MemorySpike& b) {
    return std::tuple(-a.bytes, a.layer_index, a.direction, a.variant) <
           std::tuple(-b.bytes, b.layer_index, b.direction, b.variant);
  });
  if (memory.spikes.size() > kMaxSpikes) {
    memory.spikes.resize(kMaxSpikes);
  }
}

}  // namespace headscope::aggregate
