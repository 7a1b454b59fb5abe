#include "capture/fallback.h"

namespace headscope::capture {

records::FallbackReason math_reason(const SdpaArguments& arguments) noexcept {
  using Reason = records::FallbackReason;
  const auto& [q, k, v, mask, causal, has_dropout, mask_requires_grad, nested, fused_enabled] = arguments;
  if (!fused_enabled) {
    return Reason::kDisabledByUser;
  }
  if (q.device.type != records::DeviceType::kCpu) {
    return Reason::kUnknown;
  }
  if (nested) {
    return Reason::kNested;
  }
  if (has_dropout) {
    return Reason::kDropout;
  }
  if (q.dims != 4 || k.dims != 4 || v.dims != 4) {
    return Reason::kRank;
  }
  if (mask && mask_requires_grad) {
    return Reason::kMaskRequiresGrad;
  }
  if (mask && mask->dims != 2 && mask->dims != 4) {
    return Reason::kMaskShape;
  }
  if (q.size(3) != k.size(3) || q.size(3) != v.size(3)) {
    return Reason::kHeadDims;
  }
  if (q.size(2) == 0 || k.size(2) == 0) {
    return Reason::kEmpty;
  }
  if (q.strides[3] != 1 || k.strides[3] != 1 || v.strides[3] != 1) {
    return Reason::kLastDimStride;
  }
  if (q.dtype != records::DType::kFloat32 && q.dtype != records::DType::kFloat64 &&
      q.dtype != records::DType::kBFloat16 && q.dtype != records::DType::kFloat16) {
    return Reason::kDtype;
  }
  return Reason::kUnknown;
}

}  // namespace headscope::capture
