#include "aggregate/time_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aggregate/sums.h"

namespace headscope::aggregate {
namespace {

// n·Σx² − (Σx)² is exact unless it overflows, which takes 10⁹ calls of ten minutes each.
double standard_deviation(std::uint64_t n, Count sum, Count squares) noexcept {
  Count scaled = 0;
  Count square = 0;
  const auto count = static_cast<long double>(n);
  if (!__builtin_mul_overflow(squares, Count{n}, &scaled) && !__builtin_mul_overflow(sum, sum, &square)) {
    return static_cast<double>(std::sqrt(static_cast<long double>(scaled - square)) / count);
  }
  const long double mean = static_cast<long double>(sum) / count;
  return static_cast<double>(std::sqrt(std::max(0.0L, static_cast<long double>(squares) / count - mean * mean)));
}

}  // namespace

Nanoseconds to_nanoseconds(Count count) noexcept {
  constexpr auto kLargest = static_cast<Count>(std::numeric_limits<std::int64_t>::max());
  return Nanoseconds(static_cast<std::int64_t>(std::min(count, kLargest)));
}

void TimeSums::add(std::int64_t time_ns, std::int64_t start_ns) {
  time_ns = std::max<std::int64_t>(time_ns, 0);
  total_ += static_cast<std::uint64_t>(time_ns);
  if (empty_) {
    empty_ = false;
    first_ = time_ns;
    first_start_ = start_ns;
    return;
  }
  if (start_ns < first_start_) {
    std::swap(first_, time_ns);
    first_start_ = start_ns;
  }
  add_other(time_ns);
}

void TimeSums::merge(const TimeSums& other) {
  if (other.empty_) {
    return;
  }
  merge_others(other);
  total_ += other.total_ - static_cast<std::uint64_t>(other.first_);
  add(other.first_, other.first_start_);
}

void TimeSums::absorb(const TimeSums& other) {
  if (other.empty_) {
    return;
  }
  merge_others(other);
  total_ += other.total_;
  if (empty_ || other.first_start_ < first_start_) {
    empty_ = false;
    first_ = other.first_;
    first_start_ = other.first_start_;
  }
}

TimeStats TimeSums::stats() const {
  TimeStats stats;
  stats.total = to_nanoseconds(total_);
  stats.first = Nanoseconds(first_);
  if (others_ == 0) {
    return stats;
  }
  const auto quantile = [this](double q) {
    return Nanoseconds(std::clamp<std::int64_t>(std::llround(sketch_.quantile(q)), min_, max_));
  };
  stats.mean = to_nanoseconds((sum_ + others_ / 2) / others_);
  stats.min = Nanoseconds(min_);
  stats.p50 = quantile(0.50);
  stats.p90 = quantile(0.90);
  stats.p99 = quantile(0.99);
  stats.max = Nanoseconds(max_);
  stats.std = Nanoseconds(std::llround(standard_deviation(others_, sum_, squares_)));
  return stats;
}

void TimeSums::add_other(std::int64_t time_ns) {
  const auto time = static_cast<std::uint64_t>(time_ns);
  min_ = others_ == 0 ? time_ns : std::min(min_, time_ns);
  max_ = others_ == 0 ? time_ns : std::max(max_, time_ns);
  ++others_;
  sum_ += time;
  squares_ += Count{time} * time;
  sketch_.add(time_ns);
}

void TimeSums::merge_others(const TimeSums& other) {
  if (other.others_ == 0) {
    return;
  }
  min_ = others_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = others_ == 0 ? other.max_ : std::max(max_, other.max_);
  others_ += other.others_;
  sum_ += other.sum_;
  squares_ += other.squares_;
  sketch_.merge(other.sketch_);
}

}  // namespace headscope::aggregate
