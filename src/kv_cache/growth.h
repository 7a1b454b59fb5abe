#pragma once

#include <cstddef>
#include <vector>

#include "headscope/kv_cache.h"

namespace headscope::kv_cache {

/// What a cache held over time, in bounded memory: once kMaxPoints are full, every second one goes, and from then on
/// half as many are kept. The newest is always among them.
class Growth {
 public:
  static constexpr std::size_t kMaxPoints = 512;

  void add(const KvCachePoint& point) {
    if (!points_.empty() && updates_ % stride_ != 0) {
      points_.back() = point;
    } else {
      if (points_.size() == kMaxPoints) {
        halve();
      }
      points_.push_back(point);
    }
    ++updates_;
  }

  [[nodiscard]] const std::vector<KvCachePoint>& points() const noexcept { return points_; }

 private:
  void halve() {
    for (std::size_t i = 0; i < kMaxPoints / 2; ++i) {
      points_[i] = points_[2 * i + 1];
    }
    points_.resize(kMaxPoints / 2);
    stride_ *= 2;
  }

  std::vector<KvCachePoint> points_;
  std::size_t updates_ = 0;
  std::size_t stride_ = 1;
};

}  // namespace headscope::kv_cache
