#include "report/row_tables.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "report/glob.h"
#include "report/layer_names.h"
#include "report/number_text.h"
#include "report/row_figures.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

constexpr std::size_t kLayerWidth = 18;

std::optional<double> number_of(const Value& value) {
  if (const auto* count = std::get_if<Count>(&value.data())) {
    return static_cast<double>(*count);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value.data())) {
    return static_cast<double>(*integer);
  }
  if (const auto* real = std::get_if<double>(&value.data())) {
    return *real;
  }
  return std::nullopt;
}

std::string with_unit(double value, std::string_view unit) {
  if (unit == "ns") {
    return duration(Nanoseconds(static_cast<std::int64_t>(value)));
  }
  if (unit == "bytes") {
    return si(value, "B");
  }
  if (unit == "FLOP") {
    return si(value, "FLOP");
  }
  return unit.empty() ? grouped(static_cast<Count>(value)) : three_digits(value);
}

std::string marked(const std::string& text, Provenance provenance) {
  return provenance == Provenance::kEstimated ? "~" + text : text;
}

std::string text_or_unknown(const std::optional<Nanoseconds>& time, Provenance provenance) {
  return time ? marked(duration(*time), provenance) : std::string(kUnknownText);
}

std::string range_text(const Range& range) {
  const std::string min = std::to_string(range.min);
  return range.min == range.max ? min : min + "–" + std::to_string(range.max);
}

bool is_time(const Metric& metric) { return metric.id == "time_ns"; }

/// The metrics of the table, in the catalogue's order.
std::vector<const Metric*> shown_metrics() {
  std::vector<const Metric*> shown;
  for (const Metric& metric : metrics()) {
    if (!metric.heading.empty()) {
      shown.push_back(&metric);
    }
  }
  return shown;
}

/// The layer, the time and its share stay whatever the width.
std::vector<Column> layer_columns(const std::vector<const Metric*>& shown) {
  std::vector<Column> columns = {
      {"layer", Align::kLeft, 0}, {"variant", Align::kLeft, 2}, {"phase", Align::kLeft, 3},
      {"dir", Align::kLeft, 1},   {"shape", Align::kLeft, 4},
  };
  int rank = 5;
  for (const Metric* metric : shown) {
    if (is_time(*metric)) {
      columns.push_back({"p50", Align::kRight, rank++});
      columns.push_back({std::string(metric->heading), Align::kRight, 0});
      columns.push_back({"share", Align::kRight, 0});
    } else {
      columns.push_back({std::string(metric->heading), Align::kRight, rank++});
    }
  }
  return columns;
}

void append_time(std::vector<std::string>& cells, const Metric& metric, const Figures& row, const Figures& total) {
  const Provenance provenance = provenance_of(metric, row);
  cells.push_back(text_or_unknown(row.time ? row.time->p50 : std::nullopt, provenance));
  cells.push_back(figure_text(metric, row));
  const bool has_share = row.time && total.time && total.time->total.count() > 0;
  cells.push_back(
      has_share ? percent(static_cast<double>(row.time->total.count()) / static_cast<double>(total.time->total.count()))
                : std::string(kUnknownText));
}

void append_figures(std::vector<std::string>& cells, const std::vector<const Metric*>& shown, const Figures& row,
                    const Figures& total) {
  for (const Metric* metric : shown) {
    if (is_time(*metric)) {
      append_time(cells, *metric, row, total);
    } else {
      cells.push_back(figure_text(*metric, row));
    }
  }
}

/// Indexes of the rows to show, in their order.
std::vector<std::size_t> rows_to_show(const std::vector<AttentionRow>& rows, std::size_t most) {
  std::vector<std::size_t> indexes(rows.size());
  std::iota(indexes.begin(), indexes.end(), std::size_t{0});
  if (most == 0 || rows.size() <= most) {
    return indexes;
  }
  const auto time_of = [&rows](std::size_t i) { return rows[i].time ? rows[i].time->total : Nanoseconds{-1}; };
  std::ranges::stable_sort(indexes, [&](std::size_t a, std::size_t b) { return time_of(a) > time_of(b); });
  indexes.resize(most);
  std::ranges::sort(indexes);
  return indexes;
}

/// A sum with an unknown part is unknown.
template <class T>
void add(std::optional<T>& sum, const std::optional<T>& part) {
  sum = sum && part ? std::optional<T>(*sum + *part) : std::nullopt;
}

template <class T>
void raise(std::optional<T>& largest, const std::optional<T>& part) {
  largest = largest && part ? std::optional<T>(std::max(*largest, *part)) : std::nullopt;
}

/// The figures of both together. A quantile of two rows is not known from theirs.
void merge(Figures& sum, const Figures& row) {
  sum.calls += row.calls;
  sum.time_is_attention = sum.time_is_attention && row.time_is_attention;
  if (sum.time && row.time && sum.time->source == row.time->source) {
    TimeStats time;
    time.total = sum.time->total + row.time->total;
    time.source = sum.time->source;
    sum.time = time;
  } else {
    sum.time.reset();
  }
  add(sum.host, row.host);
  add(sum.glue, row.glue);
  add(sum.other, row.other);
  add(sum.gap, row.gap);
  sum.launch_latency.reset();
  sum.queue.reset();
  sum.kernels.clear();
  add(sum.flops, row.flops);
  add(sum.flops_dense, row.flops_dense);
  add(sum.recompute_flops, row.recompute_flops);
  add(sum.bytes, row.bytes);
  add(sum.bytes_materialized, row.bytes_materialized);
  add(sum.kv_copy_bytes, row.kv_copy_bytes);
  add(sum.mask_copy_bytes, row.mask_copy_bytes);
  raise(sum.peak_bytes, row.peak_bytes);
  raise(sum.score_bytes, row.score_bytes);
  add(sum.allocated_bytes, row.allocated_bytes);
  for (const auto& [id, provenance] : row.provenance) {
    auto& weakest = sum.provenance.try_emplace(id, provenance).first->second;
    weakest = std::max(weakest, provenance);
  }
}

Figures sum_without(const std::vector<AttentionRow>& rows, const std::vector<std::size_t>& shown) {
  std::optional<Figures> sum;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::ranges::binary_search(shown, i)) {
      continue;
    }
    if (sum) {
      merge(*sum, rows[i]);
    } else {
      sum = rows[i];
    }
    if (sum->time) {
      sum->time->p50.reset();
    }
  }
  return sum.value_or(Figures{});
}

}  // namespace

std::string figure_text(const Metric& metric, const Figures& figures) {
  const Value value = is_time(metric) && figures.time ? Value(figures.time->total) : metric.read(figures);
  if (value.is_null()) {
    return std::string(kUnknownText);
  }
  const Provenance provenance = provenance_of(metric, figures);
  if (const auto* word = std::get_if<std::string>(&value.data())) {
    return marked(*word, provenance);
  }
  const auto number = number_of(value);
  return number ? marked(with_unit(*number, metric.unit), provenance) : std::string(kUnknownText);
}

std::string shape_text(const AttentionRow& row) {
  std::string text = range_text(row.batch) + "×" + std::to_string(row.heads);
  if (row.kv_heads != row.heads) {
    text += "(" + std::to_string(row.kv_heads) + ")";
  }
  text += "×" + range_text(row.q_len) + "→" + range_text(row.kv_len) + "×" + std::to_string(row.head_dim);
  return row.head_dim_v == row.head_dim ? text : text + "/" + std::to_string(row.head_dim_v);
}

TextTable layer_table(const Stats& stats, std::size_t max_rows) {
  const std::vector<AttentionRow>& rows = stats.attention_breakdown;
  const std::vector<const Metric*> shown = shown_metrics();
  const std::vector<std::size_t> indexes = rows_to_show(rows, max_rows);
  std::vector<std::string> names;
  for (const std::size_t i : indexes) {
    names.push_back(valid_utf8(rows[i].layer));
  }
  names = shorten_all(names, kLayerWidth);

  TextTable table{.columns = layer_columns(shown), .rows = {}, .last_row = {}};
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    const AttentionRow& row = rows[indexes[i]];
    std::vector<std::string> cells = {names[i], valid_utf8(row.variant), std::string(to_string(row.phase)),
                                      std::string(to_string(row.direction)), shape_text(row)};
    append_figures(cells, shown, row, stats.total);
    table.rows.push_back(std::move(cells));
  }
  if (indexes.size() < rows.size()) {
    table.last_row = {"+ " + std::to_string(rows.size() - indexes.size()) + " more rows", "", "", "", ""};
    append_figures(table.last_row, shown, sum_without(rows, indexes), stats.total);
  }
  return table;
}

TextTable head_table(const Stats& stats, std::string_view glob) {
  TextTable table;
  std::vector<const HeadRow*> heads;
  std::vector<std::string> names;
  for (const HeadRow& head : stats.heads) {
    if (glob_match(glob, head.layer)) {
      heads.push_back(&head);
      names.push_back(valid_utf8(head.layer));
    }
  }
  names = shorten_all(names, kLayerWidth);
  table.columns = {{"layer", Align::kLeft, 1},
                   {"head"},
                   {"kv head", Align::kRight, 2},
                   {"dir", Align::kLeft, 3},
                   {"FLOPs"},
                   {"bytes"},
                   {"time share"},
                   {"GB/s", Align::kRight, 4}};
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const HeadRow& head = *heads[i];
    Figures figures = figures_of(head);
    figures.provenance["time_ns"] = head.time_provenance;
    table.rows.push_back({names[i], std::to_string(head.head), std::to_string(head.kv_head),
                          std::string(to_string(head.direction)), figure_text(*find_metric("flops"), figures),
                          figure_text(*find_metric("bytes"), figures), figure_text(*find_metric("time_ns"), figures),
                          figure_text(*find_metric("gb_per_s"), figures)});
  }
  return table;
}

}  // namespace headscope::report
