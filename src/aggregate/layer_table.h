#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "aggregate/aggregate.h"
#include "aggregate/snapshot.h"

namespace headscope::aggregate {

/// Names and order of the layers in an aggregate.
class LayerTable {
 public:
  struct Layer {
    std::string name;
    std::optional<std::int64_t> index{};
    std::optional<std::int64_t> model_kv_heads{};
    /// Named by the order of its calls.
    bool by_order = false;
    /// All labels with this name, and nothing else, share it; rows sort by it.
    std::int64_t rank = 0;
  };

  /// `order`: labels of the model's layers in the order in which it runs them. Unnamed calls take their names, if no
  /// call has a name and their numbers are those of whole passes through the model.
  LayerTable(const Aggregate& aggregate, const LayerInfoOf& layer_info, std::span<const std::uint32_t> order);

  /// Of a layer that has a row, heads or a kept call in the aggregate.
  [[nodiscard]] const Layer& of(LayerKey key) const { return layers_.at(key); }

 private:
  std::map<LayerKey, Layer> layers_;
};

}  // namespace headscope::aggregate
