#include "aggregate/tolerance_section.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "aggregate/tolerance_sums.h"

namespace headscope::aggregate {
namespace {

HeadTolerance tolerance_of(const records::HeadTolerance& sums, std::size_t head, const LayerTable::Layer& layer) {
  const auto calls = static_cast<double>(sums.calls);
  HeadTolerance tolerance{.layer = layer.name,
                          .layer_index = layer.index,
                          .head = static_cast<std::int64_t>(head),
                          .rows = sums.rows,
                          .kv_bytes = sums.kv_bytes / calls};
  for (std::size_t i = 0; i < records::kToleranceSettings.size(); ++i) {
    tolerance.settings.push_back({.setting = std::string(records::kToleranceSettings[i].name),
                                  .error = std::sqrt(sums.error[i] / sums.reference),
                                  .saved_bytes = sums.saved_bytes[i] / calls});
  }
  return tolerance;
}

}  // namespace

void fill_tolerance(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<const LayerTable::Layer*, ToleranceSums>> by_layer;
  for (const auto& slot : aggregate.tolerances().slots()) {
    const LayerTable::Layer& layer = layers.of(slot->key.layer);
    auto& [named, sums] = by_layer[{layer.rank, slot->key.heads}];
    named = &layer;
    sums.merge(slot->entry);
  }
  if (by_layer.empty()) {
    return;
  }
  ToleranceSection& section = stats.tolerance.emplace();
  for (const auto& [place, layer] : by_layer) {
    section.calls += layer.second.calls();
    for (std::size_t head = 0; head < layer.second.heads().size(); ++head) {
      const records::HeadTolerance& sums = layer.second.heads()[head];
      // Without an output there is no relative error; one that is no number tells nothing.
      if (sums.rows > 0 && sums.reference > 0 && std::isfinite(sums.reference)) {
        section.heads.push_back(tolerance_of(sums, head, *layer.first));
      }
    }
  }
}

void apply_bound(double bound, ToleranceSection& section) {
  section.bound = bound;
  for (HeadTolerance& head : section.heads) {
    head.cheapest.reset();
    for (const ToleranceOfSetting& setting : head.settings) {
      const double saved_by_best = head.cheapest ? head.cheapest->saved_bytes : 0;
      if (setting.error <= bound && setting.saved_bytes > saved_by_best) {
        head.cheapest = setting;
      }
    }
  }
}

}  // namespace headscope::aggregate
