#include "aggregate/snapshot.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "aggregate/inference_sections.h"
#include "aggregate/layer_table.h"
#include "aggregate/memory_section.h"
#include "aggregate/pattern_section.h"
#include "aggregate/tolerance_section.h"
#include "aggregate/words.h"

namespace headscope::aggregate {
namespace {

using Layer = LayerTable::Layer;

/// A row before it is written: rows of labels with the same name are summed.
struct MergedRow {
  RowKey key;
  const Layer* layer;
  RowSums sums;
};

auto order_of(const RowKey& key, const Layer& layer) {
  return std::tuple(layer.rank, key.direction, key.op->variant, key.phase, key.op->name, key.inside_backward,
                    static_cast<int>(key.device.type), key.device.index, static_cast<int>(key.dtype), key.heads,
                    key.kv_heads, key.head_dim, key.head_dim_v, key.time_source, key.timed);
}

AttentionRow to_row(const MergedRow& merged) {
  AttentionRow row;
  static_cast<Figures&>(row) = merged.sums.figures();
  merged.sums.describe(row);
  row.layer = merged.layer->name;
  row.layer_index = merged.layer->index;
  row.layer_by_order = merged.layer->by_order;
  row.variant = merged.key.op->variant;
  row.op = merged.key.op->name;
  row.phase = merged.key.phase;
  row.direction = merged.key.direction;
  row.inside_backward = merged.key.inside_backward;
  row.device = device_word(merged.key.device);
  row.dtype = dtype_word(merged.key.dtype);
  row.heads = merged.key.heads;
  row.kv_heads = merged.key.kv_heads;
  row.model_kv_heads = merged.layer->model_kv_heads;
  row.head_dim = merged.key.head_dim;
  row.head_dim_v = merged.key.head_dim_v;
  return row;
}

Nanoseconds& time_of(TimeSection& time, Direction direction) {
  switch (direction) {
    case Direction::kBackward:
      return time.backward;
    case Direction::kRecompute:
      return time.recompute;
    case Direction::kForward:
      break;
  }
  return time.forward;
}

/// `repeated`: FLOPs of the recomputed forwards.
void fill_flops(TimeSection& time, const Figures& total, const KnownSum& repeated) {
  const std::optional<Count> recompute = repeated.value();
  if (!total.flops || !total.recompute_flops || !recompute) {
    return;
  }
  time.hardware_flops = total.flops;
  time.model_flops = *total.flops - *recompute - *total.recompute_flops;
  if (*total.flops > 0) {
    const auto all = static_cast<double>(*total.flops);
    time.recompute_flops_share = static_cast<double>(*recompute) / all;
    time.backward_recompute_flops_share = static_cast<double>(*total.recompute_flops) / all;
  }
}

void fill_rows(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  std::map<decltype(order_of(RowKey{}, Layer{})), MergedRow> rows;
  RowSums total = aggregate.unplaced();
  KnownSum repeated;
  for (const auto& slot : aggregate.rows().slots()) {
    const Layer& layer = layers.of(slot->key.layer);
    rows.try_emplace(order_of(slot->key, layer), MergedRow{slot->key, &layer, {}})
        .first->second.sums.merge(slot->entry);
    total.absorb(slot->entry);
    if (slot->key.direction == Direction::kRecompute) {
      repeated.add(slot->entry.flops());
    }
    time_of(stats.time, slot->key.direction) += to_nanoseconds(slot->entry.time_ns());
    stats.diagnostics.calls_untimed += slot->entry.untimed();
    stats.diagnostics.calls_attributed += slot->entry.calls();
  }
  stats.attention_breakdown.reserve(rows.size());
  for (const auto& [order, merged] : rows) {
    stats.attention_breakdown.push_back(to_row(merged));
  }
  stats.total = total.figures();
  fill_flops(stats.time, stats.total, repeated);
  stats.time.attention = to_nanoseconds(total.time_ns());
  stats.diagnostics.calls_seen = aggregate.calls_seen();
  stats.diagnostics.calls_beyond_labels = aggregate.calls_beyond_labels();
}

/// Adds a part to a head's sum, which is unknown once a part is.
template <class Sum>
void add_part(std::optional<Sum>& sum, const std::optional<std::vector<Count>>& shares, std::size_t head) {
  if (!sum || !shares) {
    sum.reset();
  } else if constexpr (std::is_same_v<Sum, Nanoseconds>) {
    *sum += to_nanoseconds((*shares)[head]);
  } else {
    *sum += (*shares)[head];
  }
}

/// The head rows of one layer and direction, from groups that differ in head counts.
void append_heads(const Layer& layer, Direction direction, const std::vector<const Aggregate::Heads::Slot*>& groups,
                  std::vector<HeadRow>& rows) {
  std::size_t heads = 0;
  std::int64_t group_size = 1;  // query heads of a kv head; where groups differ, of the most shared keys
  Weakest time_provenance(Provenance::kModelled);
  for (const auto* group : groups) {
    if (group->entry.heads() == 0) {
      return;  // some calls were not split: sums over the others would not be the layer's
    }
    heads = std::max(heads, group->entry.heads());
    if (group->key.kv_heads > 0) {
      group_size = std::max(group_size, group->key.heads / group->key.kv_heads);
    }
    time_provenance.add(group->entry.time_provenance());
  }
  const std::size_t first = rows.size();
  for (std::size_t head = 0; head < heads; ++head) {
    rows.push_back({.layer = layer.name,
                    .layer_index = layer.index,
                    .head = static_cast<std::int64_t>(head),
                    .kv_head = static_cast<std::int64_t>(head) / group_size,
                    .direction = direction,
                    .flops = 0,
                    .bytes = 0,
                    .bytes_materialized = 0,
                    .allocated_bytes = 0,
                    .time = Nanoseconds(0),
                    .time_provenance = time_provenance.value()});
  }
  for (const auto* group : groups) {
    const auto flops = group->entry.flops().shares();
    const auto bytes = group->entry.bytes().shares();
    const auto materialized = group->entry.bytes_materialized().shares();
    const auto allocated = group->entry.allocated_bytes().shares();
    const auto time = group->entry.time_ns().shares();
    for (std::size_t head = 0; head < group->entry.heads(); ++head) {
      HeadRow& row = rows[first + head];
      row.calls += group->entry.calls();
      add_part(row.flops, flops, head);
      add_part(row.bytes, bytes, head);
      add_part(row.bytes_materialized, materialized, head);
      add_part(row.allocated_bytes, allocated, head);
      add_part(row.time, time, head);
    }
  }
}

void fill_heads(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  std::map<std::pair<std::int64_t, Direction>, std::vector<const Aggregate::Heads::Slot*>> by_layer;
  for (const auto& slot : aggregate.heads().slots()) {
    by_layer[{layers.of(slot->key.layer).rank, slot->key.direction}].push_back(slot.get());
  }
  for (const auto& [place, groups] : by_layer) {
    append_heads(layers.of(groups.front()->key.layer), place.second, groups, stats.heads);
  }
  if (aggregate.calls_without_heads() > 0) {
    stats.diagnostics.not_observable.push_back(
        {.what = "heads of " + std::to_string(aggregate.calls_without_heads()) + " calls",
         .reason = "the number of heads is unknown or above what is kept apart; their layers have no head rows"});
  }
}

CallRow to_call_row(const KeptCall& kept, const LayerTable& layers) {
  const records::AttentionCall& call = kept.call;
  const auto count = [](std::optional<std::uint64_t> value) {
    return value ? std::optional<Count>(*value) : std::nullopt;
  };
  const auto measured = [](std::int64_t value) { return value >= 0 ? std::optional(value) : std::nullopt; };
  CallRow row;
  row.call_id = call.call_id;
  if (call.forward_call_id != 0) {
    row.forward_call_id = call.forward_call_id;
  }
  row.layer = layers.of(kept.layer).name;
  row.variant = call.op->variant;
  row.op = call.op->name;
  row.phase = kept.costed.phase;
  row.direction = call.direction;
  row.inside_backward = call.inside_backward;
  row.device = device_word(call.device);
  row.dtype = dtype_word(call.dtype);
  row.step = kept.step;
  row.batch = call.geometry.batch;
  row.heads = call.geometry.heads;
  row.kv_heads = call.geometry.kv_heads;
  row.head_dim = call.geometry.head_dim;
  row.head_dim_v = call.geometry.head_dim_v;
  row.q_len = call.geometry.q_len;
  row.kv_len = call.geometry.kv_len;
  row.causal = call.causal != records::Causal::kNone;
  row.mask = mask_word(call.mask);
  row.fallback_reason = fallback_word(call.fallback);
  row.time_source = call.time_source;
  if (call.time_ns >= 0) {
    row.time = Nanoseconds(call.time_ns);
  }
  if (!call.lone_kernel) {
    row.host = Nanoseconds(std::max<std::int64_t>(call.end_ns - call.start_ns, 0));
  }
  if (call.device_work) {
    const auto time = [](std::int64_t ns) { return ns >= 0 ? std::optional<Nanoseconds>(ns) : std::nullopt; };
    row.launch_latency = time(call.device_work->launch_latency_ns);
    row.queue = time(call.device_work->queue_ns);
    row.gap = time(call.device_work->gap_ns);
    for (const records::CallKernel& kernel : call.device_work->kernels) {
      row.kernels.push_back({.name = std::string(kernel.name),
                             .part = std::string(part_word(kernel.part)),
                             .time = Nanoseconds(kernel.time_ns),
                             .stream = kernel.stream,
                             .grid = kernel.grid});
    }
  }
  row.flops = count(kept.costed.flops);
  row.flops_dense = count(kept.costed.flops_dense);
  row.recompute_flops = count(kept.costed.recompute_flops);
  row.bytes = count(kept.costed.bytes);
  row.bytes_materialized = count(kept.costed.bytes_materialized);
  row.peak_bytes = measured(call.peak_bytes);
  row.score_bytes = measured(call.score_bytes);
  return row;
}

}  // namespace

void fill_stats(const Aggregate& aggregate, const LayerInfoOf& layer_info, Stats& stats,
                std::span<const std::uint32_t> order) {
  const LayerTable layers(aggregate, layer_info, order);
  fill_rows(aggregate, layers, stats);
  fill_heads(aggregate, layers, stats);
  fill_patterns(aggregate, layers, stats);
  fill_tolerance(aggregate, layers, stats);
  fill_inference(aggregate, layers, stats);
  fill_memory(aggregate, layers, stats.memory);
  for (const KeptCall& kept : aggregate.kept_calls().in_order()) {
    stats.calls.push_back(to_call_row(kept, layers));
  }
}

}  // namespace headscope::aggregate
