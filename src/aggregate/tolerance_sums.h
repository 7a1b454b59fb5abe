#pragma once

#include <cstdint>
#include <vector>

#include "records/tolerance_sample.h"

namespace headscope::aggregate {

/// What cheaper settings do to the heads of one layer.
class ToleranceSums {
 public:
  void add(const records::ToleranceSample& sample);
  void merge(const ToleranceSums& other);

  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  [[nodiscard]] const std::vector<records::HeadTolerance>& heads() const noexcept { return heads_; }

 private:
  void add_heads(const std::vector<records::HeadTolerance>& heads);

  std::uint64_t calls_ = 0;
  std::vector<records::HeadTolerance> heads_;
};

}  // namespace headscope::aggregate
