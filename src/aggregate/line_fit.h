#pragma once

#include <optional>
#include <span>

namespace headscope::aggregate {

struct LinePoint {
  double x = 0.0;
  double y = 0.0;
  double weight = 1.0;
};

struct Line {
  double slope = 0.0;
  double intercept = 0.0;
};

/// The line with the least weighted squares; std::nullopt where all x are the same.
inline std::optional<Line> fit_line(std::span<const LinePoint> points) noexcept {
  double weight = 0.0;
  double x = 0.0;
  double y = 0.0;
  for (const LinePoint& point : points) {
    weight += point.weight;
    x += point.weight * point.x;
    y += point.weight * point.y;
  }
  if (weight <= 0.0) {
    return std::nullopt;
  }
  x /= weight;
  y /= weight;
  double across = 0.0;
  double along = 0.0;
  for (const LinePoint& point : points) {
    across += point.weight * (point.x - x) * (point.y - y);
    along += point.weight * (point.x - x) * (point.x - x);
  }
  if (along <= 0.0) {
    return std::nullopt;
  }
  return Line{across / along, y - across / along * x};
}

}  // namespace headscope::aggregate
