#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "headscope/stats.h"

/// Builders of Stats for tests: `a_row("decoder.0").calls(12).time_us(600).p50_us(50).build()`.
namespace headscope::report {

class RowBuilder {
 public:
  explicit RowBuilder(std::string layer) {
    row_.layer = std::move(layer);
    row_.variant = "sdpa_flash";
    row_.op = "aten::_scaled_dot_product_flash_attention_for_cpu";
    row_.phase = Phase::kEncode;
    row_.device = "cpu";
    row_.dtype = "float32";
    row_.mask = "none";
    row_.calls = 1;
    shape(1, 12, 128, 64);
  }

  RowBuilder& shape(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t dim) {
    row_.batch = {batch, batch, static_cast<double>(batch)};
    row_.heads = row_.kv_heads = heads;
    row_.q_len = row_.kv_len = {length, length, static_cast<double>(length)};
    row_.head_dim = row_.head_dim_v = dim;
    return *this;
  }
  RowBuilder& kv_heads(std::int64_t heads) { return row_.kv_heads = heads, *this; }
  RowBuilder& q_len(std::int64_t length) { return row_.q_len = {length, length, static_cast<double>(length)}, *this; }
  RowBuilder& kv_len(Range range) { return row_.kv_len = range, *this; }
  RowBuilder& variant(std::string variant) { return row_.variant = std::move(variant), *this; }
  RowBuilder& op(std::string op) { return row_.op = std::move(op), *this; }
  RowBuilder& device(std::string device) { return row_.device = std::move(device), *this; }
  RowBuilder& mask(std::string mask) { return row_.mask = std::move(mask), *this; }
  RowBuilder& fallback(std::string reason) { return row_.fallback_reason = std::move(reason), *this; }
  RowBuilder& phase(Phase phase) { return row_.phase = phase, *this; }
  RowBuilder& direction(Direction direction) { return row_.direction = direction, *this; }
  RowBuilder& calls(std::uint64_t calls) { return row_.calls = calls, *this; }
  RowBuilder& time_us(std::int64_t total) {
    if (!row_.time) {
      row_.time.emplace();
    }
    row_.time->total = std::chrono::microseconds(total);
    return *this;
  }
  RowBuilder& p50_us(std::int64_t p50) { return row_.time->p50 = std::chrono::microseconds(p50), *this; }
  RowBuilder& flops(Count flops) { return row_.flops = flops, *this; }
  RowBuilder& bytes(Count compulsory, std::optional<Count> materialized = Count{0}) {
    row_.bytes = compulsory;
    row_.bytes_materialized = materialized;
    return *this;
  }
  RowBuilder& peak(std::int64_t bytes) { return row_.peak_bytes = bytes, *this; }
  RowBuilder& scores(std::int64_t bytes) { return row_.score_bytes = bytes, *this; }
  RowBuilder& estimated(const std::string& metric) {
    row_.provenance[metric] = Provenance::kEstimated;
    return *this;
  }
  RowBuilder& time_holds_other_work() { return row_.time_is_attention = false, *this; }

  [[nodiscard]] AttentionRow build() const { return row_; }
  operator AttentionRow() const { return row_; }  // NOLINT(google-explicit-constructor)

 private:
  AttentionRow row_;
};

inline RowBuilder a_row(std::string layer) { return RowBuilder(std::move(layer)); }

/// Stats of these rows. The total holds their calls and times; other figures of it are unknown.
inline Stats stats_of(std::vector<AttentionRow> rows) {
  Stats stats;
  stats.total.time.emplace();
  for (const AttentionRow& row : rows) {
    stats.total.calls += row.calls;
    stats.total.time->total += row.time ? row.time->total : Nanoseconds{};
  }
  stats.time.attention = stats.total.time->total;
  stats.attention_breakdown = std::move(rows);
  return stats;
}

/// A model of three layers: two encoder layers on the fused path, one that fell to math, and its backward.
inline Stats a_small_model() {
  const auto fused = [](std::string layer) {
    return a_row(std::move(layer))
        .calls(6)
        .time_us(600)
        .p50_us(95)
        .flops(50'331'648)
        .bytes(9'437'184)
        .peak(0)
        .scores(0);
  };
  Stats stats = stats_of({
      fused("model.layers.0.self_attn"),
      fused("model.layers.1.self_attn"),
      a_row("model.layers.2.self_attn")
          .variant("sdpa_math")
          .fallback("dropout")
          .calls(6)
          .time_us(2'400)
          .p50_us(390)
          .flops(50'331'648)
          .bytes(9'437'184, 18'874'368)
          .estimated("bytes_materialized")
          .peak(1'703'936)
          .scores(1'572'864),
      a_row("model.layers.2.self_attn")
          .variant("sdpa_math")
          .direction(Direction::kBackward)
          .calls(6)
          .time_us(2'400)
          .p50_us(400)
          .flops(100'663'296)
          .bytes(18'874'368, std::nullopt),
  });
  stats.total.flops = 251'658'240;
  stats.total.bytes = 47'185'920;
  stats.time.wall = std::chrono::milliseconds(30);
  stats.time.steps = 3;
  stats.time.forward = std::chrono::microseconds(3'600);
  stats.time.backward = std::chrono::microseconds(2'400);
  stats.time.attention_share = 0.2;
  stats.diagnostics.overhead = std::chrono::microseconds(12);
  stats.diagnostics.overhead_share = 0.0004;
  stats.diagnostics.calls_seen = 24;
  stats.diagnostics.calls_attributed = 24;
  stats.diagnostics.chains_unfinished = 2;
  stats.diagnostics.not_observable = {{"my_lib::attention", "it has a BackendSelect kernel of its own"}};
  for (std::int64_t head = 0; head < 2; ++head) {
    HeadRow row;
    row.layer = "model.layers.0.self_attn";
    row.head = head;
    row.kv_head = 0;
    row.calls = 6;
    row.flops = 4'194'304;
    row.bytes = 786'432;
    row.bytes_materialized = 0;
    row.time = std::chrono::microseconds(50);
    stats.heads.push_back(row);
  }
  return stats;
}

}  // namespace headscope::report
