#include "aggregate/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace headscope::aggregate {
namespace {

constexpr double kGamma = (1.0 + QuantileSketch::kRelativeError) / (1.0 - QuantileSketch::kRelativeError);
// Buckets are added this many at a time, so that a row whose times drift allocates rarely.
constexpr std::size_t kBlock = 64;
static_assert(QuantileSketch::kBuckets % kBlock == 0);

double inverse_log_gamma() noexcept {
  static const double value = 1.0 / std::log(kGamma);
  return value;
}

// Bucket i holds γ^(i−1) < x ≤ γ^i.
std::size_t bucket_of(std::int64_t sample) noexcept {
  const auto clamped = static_cast<double>(std::clamp<std::int64_t>(sample, 1, QuantileSketch::kLargest));
  const auto bucket = static_cast<std::size_t>(std::ceil(std::log(clamped) * inverse_log_gamma()));
  return std::min(bucket, QuantileSketch::kBuckets - 1);
}

// The value whose relative distance to both ends of the bucket is the same.
double middle_of(std::size_t bucket) noexcept {
  return 2.0 * std::exp(static_cast<double>(bucket) / inverse_log_gamma()) / (kGamma + 1.0);
}

}  // namespace

void QuantileSketch::add(std::int64_t sample, std::uint64_t times) {
  const std::size_t bucket = bucket_of(sample);
  if (bucket < first_bucket_ || bucket - first_bucket_ >= counts_.size()) {
    cover(bucket, bucket);
  }
  counts_[bucket - first_bucket_] += times;
  count_ += times;
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.counts_.empty()) {
    return;
  }
  cover(other.first_bucket_, other.first_bucket_ + other.counts_.size() - 1);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[other.first_bucket_ + i - first_bucket_] += other.counts_[i];
  }
  count_ += other.count_;
}

double QuantileSketch::quantile(double quantile) const noexcept {
  if (count_ == 0) {
    return 0.0;
  }
  const double wanted = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count_);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below >= rank) {
      return middle_of(first_bucket_ + i);
    }
  }
  return middle_of(first_bucket_ + counts_.size() - 1);
}

std::uint64_t QuantileSketch::count_above(double value) const noexcept {
  std::uint64_t above = 0;
  for (std::size_t i = counts_.size(); i-- > 0 && middle_of(first_bucket_ + i) > value;) {
    above += counts_[i];
  }
  return above;
}

void QuantileSketch::cover(std::size_t first, std::size_t last) {
  first = first / kBlock * kBlock;
  last = last / kBlock * kBlock + kBlock - 1;
  if (counts_.empty()) {
    first_bucket_ = first;
    counts_.resize(last - first + 1);
    return;
  }
  if (first < first_bucket_) {
    counts_.insert(counts_.begin(), first_bucket_ - first, 0);
    first_bucket_ = first;
  }
  if (last >= first_bucket_ + counts_.size()) {
    counts_.resize(last - first_bucket_ + 1);
  }
}

}  // namespace headscope::aggregate
