#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

/// What a device did for one attention call.
namespace headscope::records {

/// What a kernel is to its call.
enum class KernelPart : std::uint8_t {
  kAttention,  ///< products, softmax, a fused kernel and its helpers
  kGlue,       ///< between the ops of an eager chain: scale, mask, dropout, casts
  kOther,      ///< under the op, and no attention: cache writes, rotary
};

/// A kernel, copy or fill of a call.
struct CallKernel {
  std::string_view name;  ///< lives as DeviceSpan::name does
  KernelPart part = KernelPart::kAttention;
  std::int64_t time_ns = 0;
  std::uint32_t stream = 0;
  std::array<std::int32_t, 3> grid{};
};

struct DeviceWork {
  std::vector<CallKernel> kernels;  ///< in order of their start
  /// Sums over the kernels of a part; all −1 where a kernel of the call was launched and no time of it is known.
  std::int64_t attention_ns = -1;
  std::int64_t glue_ns = -1;
  std::int64_t other_ns = -1;
  /// From the start of the first launch to the start of its kernel, where the stream had nothing left to do; else −1.
  std::int64_t launch_latency_ns = -1;
  /// The same where earlier work was still on the stream; else −1.
  std::int64_t queue_ns = -1;
  /// Between the call's first kernel and its last, with none of its kernels running; −1 as above.
  std::int64_t gap_ns = -1;
};

}  // namespace headscope::records
