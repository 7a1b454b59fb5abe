#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "records/device_activity.h"
#include "records/device_work.h"

namespace headscope::correlate {

/// Time covered by spans that come in order of their start.
class Cover {
 public:
  void add(std::int64_t start_ns, std::int64_t end_ns) {
    if (empty_) {
      covered_to_ = start_ns;
      empty_ = false;
    }
    idle_ += std::max<std::int64_t>(start_ns - covered_to_, 0);
    covered_to_ = std::max(covered_to_, end_ns);
  }
  /// Between the first start and the last end.
  [[nodiscard]] std::int64_t idle_ns() const noexcept { return idle_; }

 private:
  bool empty_ = true;
  std::int64_t covered_to_ = 0;
  std::int64_t idle_ = 0;
};

/// A span of a call.
struct Owned {
  const records::DeviceSpan* span = nullptr;
  const records::Launch* launch = nullptr;  ///< of its own; nullptr: a graph's
  std::int64_t busy_until = 0;              ///< when what came before it on its stream had ended
  records::KernelPart part = records::KernelPart::kAttention;
};

/// What a device did for a call. Its times are unknown unless `complete`: every span of the call is here, and timed.
std::shared_ptr<const records::DeviceWork> work_of(std::vector<Owned>& owned, bool complete);

}  // namespace headscope::correlate
