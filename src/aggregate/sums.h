#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "headscope/stats.h"
#include "headscope/types.h"

/// Building blocks of a row: each is updated in O(1) a call and merges to what all calls together give.
namespace headscope::aggregate {

/// An exact sum that is known only if every addend was.
class KnownSum {
 public:
  void add(std::optional<Count> value) noexcept {
    if (value) {
      sum_ += *value;
    } else {
      ++unknown_;
    }
  }
  /// A measured value, −1 when it was not measured.
  void add_measured(std::int64_t value) noexcept {
    if (value >= 0) {
      sum_ += static_cast<std::uint64_t>(value);
    } else {
      ++unknown_;
    }
  }
  void merge(const KnownSum& other) noexcept {
    sum_ += other.sum_;
    unknown_ += other.unknown_;
  }
  [[nodiscard]] std::optional<Count> value() const noexcept {
    return unknown_ == 0 ? std::optional<Count>(sum_) : std::nullopt;
  }

 private:
  Count sum_ = 0;
  std::uint64_t unknown_ = 0;
};

/// The mean over the calls of which a value is known.
class KnownMean {
 public:
  /// −1: not known.
  void add_measured(std::int64_t value) noexcept {
    if (value >= 0) {
      sum_ += static_cast<std::uint64_t>(value);
      ++count_;
    }
  }
  void merge(const KnownMean& other) noexcept {
    sum_ += other.sum_;
    count_ += other.count_;
  }
  [[nodiscard]] std::optional<Count> value() const noexcept {
    return count_ == 0 ? std::nullopt : std::optional<Count>((sum_ + count_ / 2) / count_);
  }

 private:
  Count sum_ = 0;
  std::uint64_t count_ = 0;
};

/// The largest of measured values, known only if every one was measured.
class KnownMax {
 public:
  void add_measured(std::int64_t value) noexcept {
    if (value >= 0) {
      max_ = std::max(max_, value);
    } else {
      unknown_ = true;
    }
  }
  void merge(const KnownMax& other) noexcept {
    max_ = std::max(max_, other.max_);
    unknown_ = unknown_ || other.unknown_;
  }
  [[nodiscard]] std::optional<std::int64_t> value() const noexcept {
    return unknown_ ? std::nullopt : std::optional<std::int64_t>(max_);
  }

 private:
  std::int64_t max_ = 0;
  bool unknown_ = false;
};

/// A value that all calls share, or the knowledge that they differ.
template <class T>
class Shared {
 public:
  void add(const T& value) noexcept {
    if (empty_) {
      value_ = value;
      empty_ = false;
    } else {
      mixed_ = mixed_ || !(value_ == value);
    }
  }
  void merge(const Shared& other) noexcept {
    if (!other.empty_) {
      add(other.value_);
      mixed_ = mixed_ || other.mixed_;
    }
  }
  /// std::nullopt when calls differ, or when there are none.
  [[nodiscard]] std::optional<T> value() const noexcept {
    return empty_ || mixed_ ? std::nullopt : std::optional<T>(value_);
  }

 private:
  T value_{};
  bool empty_ = true;
  bool mixed_ = false;
};

/// Smallest, largest and sum of a size.
class Spread {
 public:
  void add(std::int64_t value) noexcept {
    min_ = count_ == 0 ? value : std::min(min_, value);
    max_ = count_ == 0 ? value : std::max(max_, value);
    sum_ += value;
    ++count_;
  }
  void merge(const Spread& other) noexcept {
    if (other.count_ == 0) {
      return;
    }
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
    sum_ += other.sum_;
    count_ += other.count_;
  }
  [[nodiscard]] Range range() const noexcept {
    if (count_ == 0) {
      return {};
    }
    return {.min = min_, .max = max_, .mean = static_cast<double>(sum_) / static_cast<double>(count_)};
  }

 private:
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  __extension__ __int128 sum_ = 0;
  std::uint64_t count_ = 0;
};

/// The least certain provenance seen.
class Weakest {
 public:
  constexpr explicit Weakest(Provenance at_best) noexcept : value_(at_best) {}
  void add(Provenance provenance) noexcept { value_ = std::max(value_, provenance); }
  void merge(const Weakest& other) noexcept { add(other.value_); }
  [[nodiscard]] Provenance value() const noexcept { return value_; }

 private:
  static_assert(Provenance::kMeasured < Provenance::kModelled && Provenance::kModelled < Provenance::kEstimated);
  Provenance value_;
};

/// A Count as nanoseconds; the largest possible where it does not fit (292 years).
Nanoseconds to_nanoseconds(Count count) noexcept;

}  // namespace headscope::aggregate
