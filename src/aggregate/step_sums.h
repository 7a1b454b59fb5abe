#pragma once

#include <cstdint>

#include "aggregate/sums.h"
#include "headscope/stats.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// What the calls of one step, or of neighbouring steps, came to.
class StepSums {
 public:
  /// `memory` false: the call's memory figures count as not measured.
  void add(const records::CostedCall& costed, bool memory) noexcept;
  void merge(const StepSums& other) noexcept;

  [[nodiscard]] bool empty() const noexcept { return calls_ == 0; }
  /// Sets the figures of `point` that follow from calls.
  void describe(StepPoint& point) const;

 private:
  std::uint64_t calls_ = 0;
  Count forward_ns_ = 0;
  Count backward_ns_ = 0;
  Count recompute_ns_ = 0;
  KnownSum flops_;
  KnownSum bytes_;
  KnownSum bytes_materialized_;
  KnownMax peak_bytes_;
};

}  // namespace headscope::aggregate
