#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "records/device_activity.h"
#include "timeline/cupti/record_decoder.h"

namespace headscope::timeline::cupti {

/// Brings spans, the calls that launched them and the ops of those calls together. CUPTI gives them in any order,
/// in any buffers, and one correlation id to all kernels of a graph launch, so nothing is joined before it is asked
/// for, and nothing is erased at its first match. Calls that launched nothing fall out.
class LateJoin {
 public:
  /// `limit`: of spans, and of correlation ids; what is beyond is dropped.
  explicit LateJoin(std::size_t limit = std::size_t{1} << 21) : limit_(limit) {}

  void add(const Decoded& decoded);

  /// Appends what is complete to `out`, or all of it. Spans whose launch is missing wait for kPatience more calls.
  void move_to(records::DeviceActivity& out, bool all);

  /// Counts records that were lost before they came here.
  void drop(std::uint64_t records) noexcept { dropped_ += records; }

  /// Forgets everything: correlation ids may start again.
  void clear();

  [[nodiscard]] std::size_t waiting() const noexcept { return spans_.size(); }
  [[nodiscard]] std::size_t calls() const noexcept { return calls_.size(); }

  static constexpr std::uint32_t kPatience = 2;

 private:
  struct Call {
    records::Launch launch;
    bool seen = false;  ///< the API record came, not only its op
    std::uint32_t round = 0;
    std::uint32_t moved = 0;  ///< round + 1 in which it was moved out last
  };
  struct Span {
    records::DeviceSpan span;
    std::uint32_t round = 0;
  };

  Call* call_of(std::uint32_t correlation);

  std::size_t limit_;
  std::uint32_t round_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<Span> spans_;
  std::unordered_map<std::uint32_t, Call> calls_;
};

}  // namespace headscope::timeline::cupti
