#include "aggregate/position_sums.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "aggregate/line_fit.h"
#include "base/split.h"

namespace headscope::aggregate {
namespace {

PositionBin bin_at(std::size_t bin) {
  const model::PositionRange range = model::position_range(bin);
  PositionBin out;
  out.first = range.first;
  if (bin + 1 < model::kPositionBins) {
    out.last = range.last;
  }
  return out;
}

}  // namespace

void PositionSums::KeyBin::merge(const KeyBin& other) {
  tokens += other.tokens;
  keys.merge(other.keys);
  batch.merge(other.batch);
  times.merge(other.times);
  time_ns += other.time_ns;
  sketch.merge(other.sketch);
  slowest = other.slowest.time_ns > slowest.time_ns ? other.slowest : slowest;
}

PositionSums::Shape PositionSums::shape_of(const records::AttentionCall& call) noexcept {
  Shape shape{.geometry = call.geometry, .causal = call.causal, .window = call.window, .mask = call.mask};
  if (const records::MaskCount* mask = call.mask_count.get()) {
    shape.mask_pairs = mask->pairs;
    shape.mask_keys = mask->used_keys;
    shape.mask_is_triangle = mask->lower_triangle;
  }
  return shape;
}

void PositionSums::add(const records::CostedCall& costed, std::int64_t step) {
  const records::AttentionCall& call = *costed.call;
  if (call.direction != Direction::kForward || call.time_ns < 0 || !costed.queries) {
    return;
  }
  if (model::has_one_position(costed)) {
    add_sample(costed, step);
  } else {
    add_blocks(call);
  }
}

void PositionSums::add_sample(const records::CostedCall& costed, std::int64_t step) {
  const records::AttentionCall& call = *costed.call;
  const std::int64_t keys = model::mean_used_keys(call);
  KeyBin& bin = by_keys_[model::position_bin(keys)];
  bin.tokens += *costed.queries;
  bin.keys.add(keys);
  bin.batch.add(call.geometry.batch);
  bin.times.add(call.time_ns);
  bin.time_ns += static_cast<std::uint64_t>(call.time_ns);
  bin.sketch.add(call.time_ns);
  if (call.time_ns > bin.slowest.time_ns) {
    bin.slowest = {call.time_ns, keys, call.call_id, step};
  }
}

void PositionSums::add_blocks(const records::AttentionCall& call) {
  const auto time_ns = static_cast<std::uint64_t>(call.time_ns);
  Group* group = call.lengths ? nullptr : group_of(shape_of(call));
  if (group == nullptr) {
    spread(model::query_blocks(call), 1, time_ns);
    return;
  }
  if (!group->blocks) {
    group->blocks = std::make_shared<const model::QueryBlocks>(model::query_blocks(call));
  }
  ++group->calls;
  group->time_ns += time_ns;
}

PositionSums::Group* PositionSums::group_of(const Shape& shape) {
  const auto known = std::ranges::find(groups_, shape, &Group::shape);
  if (known != groups_.end()) {
    return &*known;
  }
  return groups_.size() < kMaxGroups ? &groups_.emplace_back(Group{.shape = shape}) : nullptr;
}

void PositionSums::spread(const model::QueryBlocks& blocks, std::uint64_t calls, Count time_ns) {
  exact_ = exact_ && blocks.exact;
  base::split(time_ns, model::kPositionBins, blocks.weights, [&](std::size_t bin, base::Wide share) {
    if (blocks.queries[bin] > 0) {
      BlockBin& block = blocks_[bin];
      block.calls += calls;
      block.tokens += Count{blocks.queries[bin]} * calls;
      block.time_ns += share;
    }
  });
}

void PositionSums::merge(const PositionSums& other) {
  for (const auto& [bin, sums] : other.by_keys_) {
    by_keys_[bin].merge(sums);
  }
  for (const auto& [bin, sums] : other.blocks_) {
    BlockBin& block = blocks_[bin];
    block.calls += sums.calls;
    block.tokens += sums.tokens;
    block.time_ns += sums.time_ns;
  }
  exact_ = exact_ && other.exact_;
  for (const Group& group : other.groups_) {
    if (Group* own = group_of(group.shape)) {
      own->blocks = group.blocks;
      own->calls += group.calls;
      own->time_ns += group.time_ns;
    } else {
      spread(*group.blocks, group.calls, group.time_ns);
    }
  }
}

PositionBin PositionSums::KeyBin::describe(std::size_t number) const {
  const Range range = times.range();
  const auto quantile = [&](double q) {
    return Nanoseconds(std::clamp<std::int64_t>(std::llround(sketch.quantile(q)), range.min, range.max));
  };
  PositionBin bin = bin_at(number);
  bin.calls = sketch.count();
  bin.tokens = tokens;
  bin.kv_len = keys.range();
  bin.batch = batch.range();
  bin.total = to_nanoseconds(time_ns);
  bin.min = Nanoseconds(range.min);
  bin.max = Nanoseconds(range.max);
  bin.mean = Nanoseconds(std::llround(range.mean));
  bin.p50 = quantile(0.50);
  bin.p90 = quantile(0.90);
  bin.p99 = quantile(0.99);
  bin.outliers = sketch.count_above(kOutlierFactor * static_cast<double>(bin.p50->count()));
  return bin;
}

PositionSeries PositionSums::by_key_length() const {
  PositionSeries series{.axis = PositionAxis::kKeyLength, .provenance = Provenance::kMeasured};
  std::vector<LinePoint> medians;
  for (const auto& [number, sums] : by_keys_) {
    const PositionBin& bin = series.bins.emplace_back(sums.describe(number));
    if (*bin.outliers > 0) {
      series.outliers.push_back({.kv_len = sums.slowest.keys,
                                 .time = Nanoseconds(sums.slowest.time_ns),
                                 .p50 = *bin.p50,
                                 .call_id = sums.slowest.call_id,
                                 .step = sums.slowest.step});
    }
    medians.push_back({bin.kv_len->mean, static_cast<double>(bin.p50->count()), static_cast<double>(bin.calls)});
  }
  if (const std::optional<Line> line = fit_line(medians)) {
    series.fit = PositionFit{.ns_per_1000_tokens = line->slope * 1000.0, .ns_at_0 = line->intercept};
  }
  return series;
}

PositionSeries PositionSums::by_query_block() const {
  PositionSums whole;
  whole.blocks_ = blocks_;
  whole.exact_ = exact_;
  for (const Group& group : groups_) {
    whole.spread(*group.blocks, group.calls, group.time_ns);
  }
  PositionSeries series{.axis = PositionAxis::kQueryBlock,
                        .provenance = whole.exact_ ? Provenance::kModelled : Provenance::kEstimated};
  for (const auto& [number, sums] : whole.blocks_) {
    PositionBin& bin = series.bins.emplace_back(bin_at(number));
    bin.calls = sums.calls;
    bin.tokens = sums.tokens;
    bin.total = to_nanoseconds(sums.time_ns);
  }
  return series;
}

std::vector<PositionSeries> PositionSums::series() const {
  std::vector<PositionSeries> all;
  if (!by_keys_.empty()) {
    all.push_back(by_key_length());
  }
  if (PositionSeries blocks = by_query_block(); !blocks.bins.empty()) {
    all.push_back(std::move(blocks));
  }
  return all;
}

}  // namespace headscope::aggregate
