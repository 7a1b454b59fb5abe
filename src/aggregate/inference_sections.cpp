#include "aggregate/inference_sections.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregate/words.h"
#include "kv_cache/describe.h"

namespace headscope::aggregate {
namespace {

using Part = PhaseParts::Part;

std::optional<Nanoseconds> time_of(const Part& part) {
  const std::optional<Count> time = part.time_ns.value();
  return time ? std::optional(to_nanoseconds(*time)) : std::nullopt;
}

void fill_phases(const Aggregate& aggregate, Stats& stats) {
  std::map<std::pair<Phase, Direction>, Part> parts;
  const auto add = [&parts](Direction direction, const PhaseParts& of_row) {
    for (const auto& [phase, part] : of_row.parts()) {
      parts[{phase, direction}].merge(part);
    }
  };
  for (const auto& slot : aggregate.rows().slots()) {
    add(slot->key.direction, slot->entry.phases());
  }
  for (const auto& [key, part] : parts) {
    stats.phases.push_back({.phase = key.first,
                            .direction = key.second,
                            .calls = part.calls,
                            .sequences = part.sequences.value(),
                            .tokens = part.queries.value(),
                            .time = time_of(part),
                            .flops = part.flops.value(),
                            .bytes = part.bytes.value(),
                            .time_provenance = part.divided ? Provenance::kModelled : Provenance::kMeasured});
  }
}

auto order_of(const RowKey& key, std::int64_t rank) {
  return std::tuple(rank, key.op->variant, key.op->name, key.phase, static_cast<int>(key.device.type), key.device.index,
                    static_cast<int>(key.dtype), key.heads, key.kv_heads, key.head_dim, key.time_source);
}

struct PositionGroup {
  RowKey key;
  const LayerTable::Layer* layer = nullptr;  // nullptr: all layers
  PositionSums sums;
};

void append_series(const PositionGroup& group, Stats& stats) {
  for (PositionSeries& series : group.sums.series()) {
    if (group.layer != nullptr) {
      series.layer = group.layer->name;
      series.layer_index = group.layer->index;
    }
    series.variant = group.key.op->variant;
    series.op = group.key.op->name;
    series.phase = group.key.phase;
    series.device = device_word(group.key.device);
    series.dtype = dtype_word(group.key.dtype);
    series.heads = group.key.heads;
    series.kv_heads = group.key.kv_heads;
    series.head_dim = group.key.head_dim;
    series.source = group.key.time_source;
    stats.positions.push_back(std::move(series));
  }
}

void fill_positions(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  constexpr std::int64_t kAllLayers = -1;
  std::map<decltype(order_of(RowKey{}, 0)), PositionGroup> groups;
  for (const auto& slot : aggregate.rows().slots()) {
    if (slot->entry.positions().empty()) {
      continue;
    }
    const LayerTable::Layer& layer = layers.of(slot->key.layer);
    groups.try_emplace(order_of(slot->key, kAllLayers), PositionGroup{slot->key})
        .first->second.sums.merge(slot->entry.positions());
    groups.try_emplace(order_of(slot->key, layer.rank), PositionGroup{slot->key, &layer})
        .first->second.sums.merge(slot->entry.positions());
  }
  for (const auto& [order, group] : groups) {
    append_series(group, stats);
  }
}

/// The parts of one layer that requests are made of.
struct LayerRequests {
  Part prefill;
  Part chunked;
  Part decode;
};

std::optional<Nanoseconds> divided(std::optional<Nanoseconds> time, Count by) {
  if (!time || by == 0) {
    return std::nullopt;
  }
  return to_nanoseconds((static_cast<Count>(time->count()) + by / 2) / by);
}

std::optional<Count> larger(std::optional<Count> a, std::optional<Count> b) {
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

void fill_requests(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  std::map<std::int64_t, LayerRequests> by_layer;
  Part prefill;
  Part decode;
  for (const auto& slot : aggregate.rows().slots()) {
    if (slot->key.direction != Direction::kForward) {
      continue;
    }
    for (const auto& [phase, part] : slot->entry.phases().parts()) {
      LayerRequests& layer = by_layer[layers.of(slot->key.layer).rank];
      if (phase == Phase::kPrefill) {
        layer.prefill.merge(part);
        prefill.merge(part);
      } else if (phase == Phase::kChunkedPrefill) {
        layer.chunked.merge(part);
        prefill.merge(part);
      } else if (phase == Phase::kDecode) {
        layer.decode.merge(part);
        decode.merge(part);
      }
    }
  }
  if (prefill.calls == 0 && decode.calls == 0) {
    return;
  }
  RequestSection& requests = stats.requests.emplace();
  requests.prompts = requests.prompt_tokens = requests.generated_tokens = Count{0};
  for (const auto& [rank, layer] : by_layer) {
    Part prompt = layer.prefill;
    prompt.merge(layer.chunked);
    requests.prompts = larger(requests.prompts, layer.prefill.sequences.value());
    requests.prompt_tokens = larger(requests.prompt_tokens, prompt.queries.value());
    requests.generated_tokens = larger(requests.generated_tokens, layer.decode.queries.value());
    requests.prefill_passes = std::max(requests.prefill_passes, layer.prefill.calls);
    requests.decode_passes = std::max(requests.decode_passes, layer.decode.calls);
  }
  requests.prefill = prefill.calls > 0 ? time_of(prefill) : std::nullopt;
  requests.decode = decode.calls > 0 ? time_of(decode) : std::nullopt;
  requests.to_first_token = divided(requests.prefill, requests.prefill_passes);
  requests.between_tokens = divided(requests.decode, requests.decode_passes);
  requests.per_token = divided(requests.decode, requests.generated_tokens.value_or(0));
  requests.provenance = prefill.divided || decode.divided ? Provenance::kModelled : Provenance::kMeasured;
}

/// Of one layer.
struct SeenCache {
  std::string layer;
  CacheSums sums;
  /// Some call had keys from before its queries: what it read was a cache.
  bool is_cache = false;
};

void fill_caches(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  std::map<std::pair<std::int64_t, KvCacheKind>, SeenCache> seen;
  for (const auto& slot : aggregate.rows().slots()) {
    if (!slot->entry.cache().seen()) {
      continue;
    }
    const LayerTable::Layer& layer = layers.of(slot->key.layer);
    SeenCache& cache = seen[{layer.rank, slot->entry.cache().use().kind}];
    cache.layer = layer.name;
    cache.sums.merge(slot->entry.cache());
    const Phase phase = slot->key.phase;
    cache.is_cache = cache.is_cache || phase == Phase::kDecode || phase == Phase::kChunkedPrefill ||
                     phase == Phase::kMixed || slot->entry.cache().use().kind == KvCacheKind::kPaged;
  }
  std::erase_if(seen, [](const auto& entry) { return !entry.second.is_cache; });
  for (const KvCacheKind kind : {KvCacheKind::kPaged, KvCacheKind::kView}) {
    std::vector<KvCacheUse> uses;
    for (const auto& [place, cache] : seen) {
      if (place.second == kind) {
        uses.push_back(cache.sums.use());
        uses.back().layer = cache.layer;
      }
    }
    if (uses.empty()) {
      continue;
    }
    // The layers of a cache are filled alike: tokens of the first, bytes of all.
    KvCacheUse whole = uses.front();
    whole.layer.clear();
    whole.layers = static_cast<std::int64_t>(uses.size());
    whole.bytes_per_token = 0.0;
    for (const KvCacheUse& use : uses) {
      *whole.bytes_per_token += *use.bytes_per_token;
    }
    uses.insert(uses.begin(), std::move(whole));
    for (const KvCacheUse& use : uses) {
      stats.kv_cache.push_back(kv_cache::describe(use, "(seen in calls)"));
    }
  }
}

}  // namespace

void fill_inference(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  fill_phases(aggregate, stats);
  fill_positions(aggregate, layers, stats);
  fill_requests(aggregate, layers, stats);
  fill_caches(aggregate, layers, stats);
}

}  // namespace headscope::aggregate
