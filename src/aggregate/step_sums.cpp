#include "aggregate/step_sums.h"

namespace headscope::aggregate {

void StepSums::add(const records::CostedCall& costed, bool memory) noexcept {
  const records::AttentionCall& call = *costed.call;
  ++calls_;
  const auto time = static_cast<Count>(call.time_ns > 0 ? call.time_ns : 0);
  switch (call.direction) {
    case Direction::kForward:
      forward_ns_ += time;
      break;
    case Direction::kBackward:
      backward_ns_ += time;
      break;
    case Direction::kRecompute:
      recompute_ns_ += time;
      break;
  }
  flops_.add(costed.flops);
  bytes_.add(costed.bytes);
  bytes_materialized_.add(costed.bytes_materialized);
  peak_bytes_.add_measured(memory ? call.peak_bytes : -1);
}

void StepSums::merge(const StepSums& other) noexcept {
  calls_ += other.calls_;
  forward_ns_ += other.forward_ns_;
  backward_ns_ += other.backward_ns_;
  recompute_ns_ += other.recompute_ns_;
  flops_.merge(other.flops_);
  bytes_.merge(other.bytes_);
  bytes_materialized_.merge(other.bytes_materialized_);
  peak_bytes_.merge(other.peak_bytes_);
}

void StepSums::describe(StepPoint& point) const {
  point.calls = calls_;
  point.forward = to_nanoseconds(forward_ns_);
  point.backward = to_nanoseconds(backward_ns_);
  point.recompute = to_nanoseconds(recompute_ns_);
  point.attention = to_nanoseconds(forward_ns_ + backward_ns_ + recompute_ns_);
  point.flops = flops_.value();
  point.bytes = bytes_.value();
  point.bytes_materialized = bytes_materialized_.value();
  point.peak_bytes = empty() ? std::nullopt : peak_bytes_.value();
}

}  // namespace headscope::aggregate
