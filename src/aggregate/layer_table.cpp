#include "aggregate/layer_table.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace headscope::aggregate {
namespace {

LayerTable::Layer describe(LayerKey key, const LayerInfoOf& layer_info) {
  switch (key.kind) {
    case LayerKey::Kind::kNumber:
      return {.name = "attention[" + std::to_string(key.value) + "]", .index = std::int64_t{key.value}};
    case LayerKey::Kind::kLabel:
      if (const LayerInfo* info = layer_info(key.value)) {
        return {.name = info->name, .index = info->index, .model_kv_heads = info->model_kv_heads};
      }
      break;
    case LayerKey::Kind::kOther:
      break;
  }
  return {.name = "attention[*]"};
}

/// True when the unnamed calls of `aggregate` are whole passes through `layers` layers, and the only calls.
bool is_whole_passes(const Aggregate& aggregate, std::size_t layers) {
  std::set<std::uint32_t> numbers;
  for (const auto& slot : aggregate.rows().slots()) {
    if (slot->key.layer.kind != LayerKey::Kind::kNumber) {
      return false;
    }
    numbers.insert(slot->key.layer.value);
  }
  return layers > 0 && !numbers.empty() && numbers.size() % layers == 0 && *numbers.rbegin() + 1 == numbers.size();
}

// A layer under one name, whatever the number of labels.
struct Named {
  std::int64_t first_start_ns = std::numeric_limits<std::int64_t>::max();
  std::optional<std::int64_t> index;
  std::optional<std::int64_t> model_kv_heads;
  std::int64_t rank = 0;
  bool ordered = true;
};

}  // namespace

LayerTable::LayerTable(const Aggregate& aggregate, const LayerInfoOf& layer_info,
                       std::span<const std::uint32_t> order_of_model) {
  const bool by_order = is_whole_passes(aggregate, order_of_model.size());
  std::map<std::string, Named> named;
  const auto meet = [&](LayerKey key, std::int64_t first_start_ns) {
    const auto [place, added] = layers_.try_emplace(key);
    if (added) {
      const bool takes_name = by_order && key.kind == LayerKey::Kind::kNumber;
      place->second =
          takes_name ? describe({LayerKey::Kind::kLabel, order_of_model[key.value % order_of_model.size()]}, layer_info)
                     : describe(key, layer_info);
      place->second.by_order = takes_name;
    }
    const Layer& layer = place->second;
    Named& name = named[layer.name];
    name.first_start_ns = std::min(name.first_start_ns, first_start_ns);
    name.index = name.index ? name.index : layer.index;
    name.model_kv_heads = name.model_kv_heads ? name.model_kv_heads : layer.model_kv_heads;
    name.ordered = name.ordered && key.kind != LayerKey::Kind::kOther;
  };
  for (const auto& slot : aggregate.rows().slots()) {
    meet(slot->key.layer, slot->entry.first_start_ns());
  }
  for (const auto& slot : aggregate.heads().slots()) {
    meet(slot->key.layer, std::numeric_limits<std::int64_t>::max());
  }
  for (const KeptCall& kept : aggregate.kept_calls().in_order()) {
    meet(kept.layer, kept.call.start_ns);
  }

  std::vector<std::pair<const std::string, Named>*> order;
  for (auto& entry : named) {
    order.push_back(&entry);
  }
  std::ranges::stable_sort(order, {}, [](const auto* entry) { return entry->second.first_start_ns; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    Named& name = order[i]->second;
    if (!name.index && name.ordered) {
      name.index = static_cast<std::int64_t>(i);
    }
  }
  std::ranges::stable_sort(order, {}, [](const auto* entry) {
    return std::tuple(!entry->second.index.has_value(), entry->second.index.value_or(0));
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i]->second.rank = static_cast<std::int64_t>(i);
  }
  for (auto& [key, layer] : layers_) {
    const Named& name = named.at(layer.name);
    layer.index = name.index;
    layer.model_kv_heads = name.model_kv_heads;
    layer.rank = name.rank;
  }
}

}  // namespace headscope::aggregate
