#include "capture/torch/memory_meter.h"

#include <algorithm>
#include <utility>

namespace headscope::capture::torch {

class MemoryMeter::Reporter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t bytes, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    level_ += bytes;
    peak_ = std::max(peak_, level_);
    if (bytes <= 0) {
      return;
    }
    allocated_ += bytes;
    if (bytes == scores_.elements * scores_.element_size || bytes == scores_.elements * kFloatBytes) {
      score_ += bytes;
    }
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  void begin(ScoreSize scores) noexcept {
    level_ = peak_ = allocated_ = score_ = 0;
    scores_ = scores;
  }
  [[nodiscard]] Reading reading() const noexcept { return {allocated_, peak_, score_}; }

 private:
  static constexpr std::int64_t kFloatBytes = 4;

  std::int64_t level_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t allocated_ = 0;
  std::int64_t score_ = 0;
  ScoreSize scores_;
};

bool MemoryMeter::start(ScoreSize scores) noexcept {
  using Info = c10::ThreadLocalDebugInfo;
  if (running_ || Info::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr) {
    return false;
  }
  try {
    if (!reporter_) {
      reporter_ = std::make_shared<Reporter>();
    }
    reporter_->begin(scores);
    before_ = Info::current();
    if (before_) {
      Info::_push(c10::DebugInfoKind::PROFILER_STATE, reporter_);
    } else {
      if (!alone_) {
        Info::_push(c10::DebugInfoKind::PROFILER_STATE, reporter_);
        alone_ = Info::current();
      } else {
        Info::_forceCurrentDebugInfo(alone_);
      }
    }
  } catch (...) {
    return false;
  }
  running_ = true;
  return true;
}

MemoryMeter::Reading MemoryMeter::stop() noexcept {
  running_ = false;
  // The op may have left other debug info in place only by an exception; what was there before is right.
  c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(std::exchange(before_, nullptr));
  return reporter_->reading();
}

}  // namespace headscope::capture::torch
