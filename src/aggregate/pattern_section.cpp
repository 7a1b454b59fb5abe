#include "aggregate/pattern_section.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregate/pattern_class.h"

namespace headscope::aggregate {
namespace {

std::string reason_of(records::NotSampled reason) {
  switch (reason) {
    case records::NotSampled::kNone:
      break;
    case records::NotSampled::kBudget:
      return "the step's budget of scores was used up (pattern_budget), or there were too many heads";
    case records::NotSampled::kPaged:
      return "keys lie in the pages of a cache";
    case records::NotSampled::kLengths:
      return "the lengths of the sequences were not read";
    case records::NotSampled::kHiddenOperands:
      return "queries and keys are made inside the op, or kept in a cache that is no argument";
    case records::NotSampled::kShape:
      return "operands or scores in a form that is not read";
    case records::NotSampled::kCapture:
      return "a CUDA graph was being captured, or this torch does not tell whether one was";
    case records::NotSampled::kFailed:
      return "sampling failed; diagnostics.hook_errors counts it";
  }
  return "unknown";
}

HeadPattern pattern_of(const PatternSums& sums, std::size_t head, const LayerTable::Layer& layer) {
  const records::HeadSample& total = sums.total()[head];
  const auto rows = static_cast<double>(total.rows);
  HeadPattern pattern{.layer = layer.name,
                      .layer_index = layer.index,
                      .head = static_cast<std::int64_t>(head),
                      .rows = total.rows,
                      .first_step = sums.first().step,
                      .last_step = sums.last().step,
                      .entropy = total.entropy / rows,
                      .effective_tokens = total.effective_tokens / rows,
                      .sink_mass = total.sink_mass / rows,
                      .keys_95 = total.keys_95 / rows,
                      .attended_share = total.attended_share / rows,
                      .pattern = class_of(total, sums.cross())};
  if (!sums.cross()) {
    pattern.local_mass = total.local_mass / rows;
  }
  if (sums.first().step < sums.last().step && head < sums.first().heads.size() && head < sums.last().heads.size()) {
    pattern.drift = drift_between(sums.first().heads[head], sums.last().heads[head]);
  }
  return pattern;
}

void append_layer(const PatternSums& sums, const LayerTable::Layer& layer, PatternSection& section) {
  const bool first_layer = section.calls == 0;
  section.baseline_step = first_layer ? sums.first().step : std::min(section.baseline_step, sums.first().step);
  section.last_step = first_layer ? sums.last().step : std::max(section.last_step, sums.last().step);
  section.calls += sums.calls();
  for (std::size_t head = 0; head < sums.total().size(); ++head) {
    if (sums.total()[head].rows > 0) {
      section.heads.push_back(pattern_of(sums, head, layer));
    }
  }
  for (const Collapse& collapse : collapses(sums.series())) {
    section.alerts.push_back({.layer = layer.name,
                              .layer_index = layer.index,
                              .head = static_cast<std::int64_t>(collapse.head),
                              .step = collapse.step,
                              .last_good_step = collapse.last_good_step,
                              .collapsed_to = std::string(collapse.collapsed_to),
                              .entropy_before = collapse.entropy_before,
                              .entropy = collapse.entropy});
  }
}

/// Forward head rows of a layer that has one number of heads take its patterns.
void describe_heads(const std::vector<HeadPattern>& patterns, std::vector<HeadRow>& rows) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<const HeadPattern*>> by_head;
  for (const HeadPattern& pattern : patterns) {
    by_head[{pattern.layer, pattern.head}].push_back(&pattern);
  }
  for (HeadRow& row : rows) {
    const auto found = by_head.find({row.layer, row.head});
    if (row.direction != Direction::kForward || found == by_head.end() || found->second.size() != 1) {
      continue;
    }
    const HeadPattern& pattern = *found->second.front();
    row.entropy = pattern.entropy;
    row.effective_tokens = pattern.effective_tokens;
    row.sink_mass = pattern.sink_mass;
    row.local_mass = pattern.local_mass;
  }
}

/// The mean share of keys that is attended, over rows.
class Mean {
 public:
  void add(const HeadPattern& pattern) noexcept {
    sum_ += pattern.attended_share * static_cast<double>(pattern.rows);
    rows_ += pattern.rows;
  }
  [[nodiscard]] std::optional<double> share() const noexcept {
    return rows_ > 0 ? std::optional(sum_ / static_cast<double>(rows_)) : std::nullopt;
  }

 private:
  double sum_ = 0;
  std::uint64_t rows_ = 0;
};

}  // namespace

void fill_patterns(const Aggregate& aggregate, const LayerTable& layers, Stats& stats) {
  // Labels with the same name are one layer; other numbers of heads are another set of heads.
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<const LayerTable::Layer*, PatternSums>> by_layer;
  for (const auto& slot : aggregate.patterns().slots()) {
    const LayerTable::Layer& layer = layers.of(slot->key.layer);
    auto& [named, sums] = by_layer[{layer.rank, slot->key.heads}];
    named = &layer;
    sums.merge(slot->entry);
  }
  PatternSection section;
  for (const auto& [place, layer] : by_layer) {
    append_layer(layer.second, *layer.first, section);
  }
  std::ranges::stable_sort(section.alerts, {}, &PatternAlert::step);
  for (std::size_t i = 1; i < records::kNotSampledReasons; ++i) {
    const auto reason = static_cast<records::NotSampled>(i);
    if (const std::uint64_t calls = aggregate.not_sampled().calls(reason); calls > 0) {
      section.not_sampled.push_back({.reason = reason_of(reason), .calls = calls});
    }
  }
  if (section.calls == 0 && section.not_sampled.empty()) {
    return;
  }
  describe_heads(section.heads, stats.heads);
  stats.patterns = std::move(section);
}

void fill_attended_share(Stats& stats) {
  if (!stats.patterns) {
    return;
  }
  Mean all;
  std::map<std::string, Mean> by_name;
  std::map<std::int64_t, Mean> by_index;
  for (const HeadPattern& pattern : stats.patterns->heads) {
    all.add(pattern);
    by_name[pattern.layer].add(pattern);
    by_index[pattern.layer_index.value_or(-1)].add(pattern);
  }
  std::map<std::string, std::size_t> layers_of_cache;
  for (const KvCacheRow& row : stats.kv_cache) {
    layers_of_cache[row.cache] += row.layer.empty() ? 0 : 1;
  }
  for (KvCacheRow& row : stats.kv_cache) {
    if (row.layer.empty()) {
      row.attended_share = all.share();
    } else if (const auto named = by_name.find(row.layer); named != by_name.end()) {
      row.attended_share = named->second.share();
    } else if (layers_of_cache[row.cache] == by_index.size()) {
      // Caches number their layers; where a model has other attention too, the numbers are not those of its layers.
      const auto numbered = std::ranges::find_if(
          by_index, [&row](const auto& entry) { return std::to_string(entry.first) == row.layer; });
      row.attended_share = numbered != by_index.end() ? numbered->second.share() : std::nullopt;
    }
  }
}

}  // namespace headscope::aggregate
