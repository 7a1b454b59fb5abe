#include "capture/torch/memory_meter.h"

#include <algorithm>
#include <utility>

#include "capture/torch/memory_reporter.h"
#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {

class MemoryMeter::Reporter final : public MemoryReporter, public AllocationListener {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t bytes, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device device) override {
    on_allocation(bytes, device);
  }

  void on_allocation(std::int64_t bytes, c10::Device device) noexcept override {
    if (expected_.device && device_of(device).type != *expected_.device) {
      return;
    }
    level_ += bytes;
    reading_.peak_bytes = std::max(reading_.peak_bytes, level_);
    if (bytes <= 0) {
      return;
    }
    reading_.allocated_bytes += bytes;
    if (const auto kind = expected_.kind_of(bytes)) {
      reading_.by_kind[static_cast<std::size_t>(*kind)] += bytes;
    }
  }

  void begin(const ExpectedAllocations& expected) noexcept {
    level_ = 0;
    reading_ = {.allocated_bytes = 0, .peak_bytes = 0};
    expected_ = expected;
  }
  [[nodiscard]] const Reading& reading() const noexcept { return reading_; }

 private:
  std::int64_t level_ = 0;
  Reading reading_;
  ExpectedAllocations expected_;
};

bool MemoryMeter::start(const ExpectedAllocations& expected) noexcept {
  using Info = c10::ThreadLocalDebugInfo;
  if (running_) {
    return false;
  }
  const c10::DebugInfoBase* holder = Info::get(c10::DebugInfoKind::PROFILER_STATE);
  in_scope_ = holder != nullptr && reports_to_a_scope(*holder);
  if (holder != nullptr && !in_scope_) {
    return false;
  }
  try {
    if (!reporter_) {
      reporter_ = std::make_shared<Reporter>();
    }
    reporter_->begin(expected);
    if (in_scope_) {
      listen(reporter_.get());
      return running_ = true;
    }
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
  return running_ = true;
}

MemoryMeter::Reading MemoryMeter::stop() noexcept {
  running_ = false;
  if (in_scope_) {
    listen(nullptr);
  } else {
    // The op may have left other debug info in place only by an exception; what was there before is right.
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(std::exchange(before_, nullptr));
  }
  return reporter_->reading();
}

}  // namespace headscope::capture::torch
