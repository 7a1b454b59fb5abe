#include "aggregate/head_sums.h"

#include <algorithm>

#include "base/split.h"

namespace headscope::aggregate {

void SplitSum::add_equal(std::optional<std::uint64_t> value) noexcept {
  if (!value) {
    ++unknown_;
  } else if (!by_remainder_.empty()) {
    quotients_ += *value / by_remainder_.size();
    ++by_remainder_[*value % by_remainder_.size()];
  }
}

void SplitSum::add_weighted(std::optional<std::uint64_t> value, const std::vector<std::uint64_t>& weights) {
  if (!value) {
    ++unknown_;
    return;
  }
  weighted_.resize(by_remainder_.size());
  base::split(*value, weighted_.size(), weights,
              [this](std::size_t head, base::Wide share) { weighted_[head] += share; });
}

void SplitSum::merge(const SplitSum& other) {
  quotients_ += other.quotients_;
  unknown_ += other.unknown_;
  for (std::size_t i = 0; i < std::min(by_remainder_.size(), other.by_remainder_.size()); ++i) {
    by_remainder_[i] += other.by_remainder_[i];
  }
  if (!other.weighted_.empty()) {
    weighted_.resize(by_remainder_.size());
    for (std::size_t i = 0; i < std::min(weighted_.size(), other.weighted_.size()); ++i) {
      weighted_[i] += other.weighted_[i];
    }
  }
}

std::optional<std::vector<Count>> SplitSum::shares() const {
  if (unknown_ != 0) {
    return std::nullopt;
  }
  const std::size_t heads = by_remainder_.size();
  std::vector<Count> shares(heads, quotients_);
  for (std::size_t remainder = 1; remainder < heads; ++remainder) {
    if (by_remainder_[remainder] == 0) {
      continue;
    }
    // floor((h+1)·r/H) − floor(h·r/H) is 1 at h = ⌈k·H/r⌉ − 1 for k = 1..r, else 0.
    for (std::size_t k = 1; k <= remainder; ++k) {
      shares[(k * heads + remainder - 1) / remainder - 1] += by_remainder_[remainder];
    }
  }
  for (std::size_t head = 0; head < weighted_.size(); ++head) {
    shares[head] += weighted_[head];
  }
  return shares;
}

void HeadSums::add(const records::CostedCall& costed, bool memory) {
  const records::AttentionCall& call = *costed.call;
  ++calls_;
  const auto time = call.time_ns >= 0 ? std::optional(static_cast<std::uint64_t>(call.time_ns)) : std::nullopt;
  if (costed.head_weights != nullptr && costed.head_weights->size() == heads_ && heads_ > 0) {
    flops_.add_weighted(costed.flops, *costed.head_weights);
    time_.add_weighted(time, *costed.head_weights);
  } else {
    flops_.add_equal(costed.flops);
    time_.add_equal(time);
  }
  bytes_.add_equal(costed.bytes);
  bytes_materialized_.add_equal(costed.bytes_materialized);
  const bool allocated_known = memory && call.allocated_bytes >= 0;
  allocated_bytes_.add_equal(allocated_known ? std::optional(static_cast<std::uint64_t>(call.allocated_bytes))
                                             : std::nullopt);
  // The split follows the admitted pairs, so it is as good as they are.
  time_provenance_.add(costed.flops ? costed.flops_provenance : Provenance::kEstimated);
}

void HeadSums::merge(const HeadSums& other) {
  if (other.heads_ != heads_) {
    heads_ = 0;  // the other part was not split: what is here would be partial sums
  }
  calls_ += other.calls_;
  flops_.merge(other.flops_);
  time_.merge(other.time_);
  bytes_.merge(other.bytes_);
  bytes_materialized_.merge(other.bytes_materialized_);
  allocated_bytes_.merge(other.allocated_bytes_);
  time_provenance_.merge(other.time_provenance_);
}

}  // namespace headscope::aggregate
