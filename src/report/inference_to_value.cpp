#include "report/inference_to_value.h"

#include <cstdint>
#include <optional>
#include <string>

namespace headscope::report {
namespace {

using Object = Value::Object;
using List = Value::List;
using report::to_value;

Object to_value(const PositionFit& fit) {
  return {{"ns_per_1000_tokens", fit.ns_per_1000_tokens},
          {"ns_at_0", fit.ns_at_0},
          {"provenance", to_string(Provenance::kEstimated)}};
}

Object to_value(const PositionOutlier& outlier) {
  return {{"kv_len", outlier.kv_len},
          {"time_ns", outlier.time},
          {"p50_ns", outlier.p50},
          {"call_id", outlier.call_id},
          {"step", outlier.step}};
}

Object to_value(const KvCachePoint& point) {
  return {{"at_ns", point.at}, {"used_tokens", point.used_tokens}, {"reserved_tokens", point.reserved_tokens}};
}

template <class T>
Value object_or_null(const std::optional<T>& part) {
  Value value;
  if (part) {
    value = to_value(*part);
  }
  return value;
}

Object to_value(const PositionBin& bin) {
  std::optional<double> per_token;
  if (bin.tokens > 0) {
    per_token = static_cast<double>(bin.total.count()) / static_cast<double>(bin.tokens);
  }
  return {{"first", bin.first},
          {"last", bin.last},
          {"calls", bin.calls},
          {"tokens", bin.tokens},
          {"kv_len", object_or_null(bin.kv_len)},
          {"batch", object_or_null(bin.batch)},
          {"time_ns", Object{{"total", bin.total},
                             {"mean", bin.mean},
                             {"min", bin.min},
                             {"p50", bin.p50},
                             {"p90", bin.p90},
                             {"p99", bin.p99},
                             {"max", bin.max}}},
          {"time_per_token_ns", per_token},
          {"outliers", bin.outliers}};
}

template <class Row>
List list_of(const std::vector<Row>& rows) {
  List out;
  out.reserve(rows.size());
  for (const Row& row : rows) {
    out.emplace_back(to_value(row));
  }
  return out;
}

}  // namespace

Object to_value(const Range& range) { return {{"min", range.min}, {"max", range.max}, {"mean", range.mean}}; }

Object to_value(const PhaseRow& row) {
  return {{"phase", to_string(row.phase)},
          {"direction", to_string(row.direction)},
          {"calls", row.calls},
          {"sequences", row.sequences},
          {"tokens", row.tokens},
          {"time_ns", row.time},
          {"time_provenance", row.time ? std::optional(to_string(row.time_provenance)) : std::nullopt},
          {"flops", row.flops},
          {"bytes", row.bytes}};
}

Object to_value(const PositionSeries& series) {
  return {{"layer", series.layer},
          {"layer_index", series.layer_index},
          {"variant", series.variant},
          {"op", series.op},
          {"phase", to_string(series.phase)},
          {"device", series.device},
          {"dtype", series.dtype},
          {"heads", series.heads},
          {"kv_heads", series.kv_heads},
          {"head_dim", series.head_dim},
          {"axis", to_string(series.axis)},
          {"source", to_string(series.source)},
          {"provenance", to_string(series.provenance)},
          {"bins", list_of(series.bins)},
          {"fit", object_or_null(series.fit)},
          {"outliers", list_of(series.outliers)}};
}

Object to_value(const RequestSection& requests) {
  return {{"prompts", requests.prompts},
          {"prompt_tokens", requests.prompt_tokens},
          {"generated_tokens", requests.generated_tokens},
          {"prefill_passes", requests.prefill_passes},
          {"decode_passes", requests.decode_passes},
          {"prefill_ns", requests.prefill},
          {"decode_ns", requests.decode},
          {"attention_to_first_token_ns", requests.to_first_token},
          {"attention_between_tokens_ns", requests.between_tokens},
          {"attention_per_token_ns", requests.per_token},
          {"time_provenance", to_string(requests.provenance)}};
}

Object to_value(const StageRow& row) {
  return {{"stage", row.stage}, {"count", row.count}, {"time_ns", row.time}, {"wall_share", row.wall_share}};
}

Object to_value(const KvCacheRow& row) {
  Object out{{"cache", row.cache},
             {"layer", text_or_null(row.layer)},
             {"kind", to_string(row.kind)},
             {"layers", row.layers},
             {"sequences", row.sequences},
             {"capacity_tokens", row.capacity_tokens},
             {"reserved_tokens", row.reserved_tokens},
             {"used_tokens", row.used_tokens},
             {"padding_tokens", row.padding_tokens},
             {"shared_tokens", row.shared_tokens},
             {"bytes_per_token", row.bytes_per_token},
             {"capacity_bytes", row.capacity_bytes},
             {"reserved_bytes", row.reserved_bytes},
             {"used_bytes", row.used_bytes},
             {"occupancy", row.occupancy},
             {"occupancy_of", text_or_null(row.occupancy_of)},
             {"padding_share", row.padding_share}};
  const auto of_blocks = [&row](auto KvBlocks::* figure) {
    return row.blocks ? Value(row.blocks.value().*figure) : Value();
  };
  out.emplace_back("block_size", of_blocks(&KvBlocks::block_size));
  out.emplace_back("blocks_total", of_blocks(&KvBlocks::total));
  out.emplace_back("blocks_used", of_blocks(&KvBlocks::used));
  out.emplace_back("slots_written", of_blocks(&KvBlocks::slots_written));
  out.emplace_back("block_occupancy", row.block_occupancy);
  out.emplace_back("token_occupancy", row.token_occupancy);
  out.emplace_back("fragmentation", row.fragmentation);
  out.emplace_back("tokens_left", row.tokens_left);
  out.emplace_back("tokens_left_of", text_or_null(row.tokens_left_of));
  out.emplace_back("attended_share", row.attended_share);
  out.emplace_back("freed", row.freed);
  out.emplace_back("growth", row.growth.empty() ? Value() : Value(list_of(row.growth)));
  return out;
}

}  // namespace headscope::report
