#include "aggregate/words.h"

namespace headscope::aggregate {

using records::Causal;
using records::DeviceType;
using records::DType;
using records::FallbackReason;
using records::MaskState;

std::string_view mask_word(MaskState mask) noexcept {
  switch (mask) {
    case MaskState::kNone:
      return "none";
    case MaskState::kCounted:
      return "counted";
    case MaskState::kOpaque:
      return "opaque";
    case MaskState::kUnseen:
      return "unseen";
  }
  return "unseen";
}

std::optional<std::string> alignment_word(Causal causal) {
  switch (causal) {
    case Causal::kUpperLeft:
      return "upper_left";
    case Causal::kLowerRight:
      return "lower_right";
    case Causal::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> fallback_word(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::kNone:
      return std::nullopt;
    case FallbackReason::kDisabledByUser:
      return "disabled_by_user";
    case FallbackReason::kDropout:
      return "dropout";
    case FallbackReason::kHeadDims:
      return "head_dims";
    case FallbackReason::kRank:
      return "rank";
    case FallbackReason::kMaskRequiresGrad:
      return "mask_requires_grad";
    case FallbackReason::kMaskShape:
      return "mask_shape";
    case FallbackReason::kEmpty:
      return "empty";
    case FallbackReason::kLastDimStride:
      return "last_dim_stride";
    case FallbackReason::kDtype:
      return "dtype";
    case FallbackReason::kNested:
      return "nested";
    case FallbackReason::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::string_view part_word(records::KernelPart part) noexcept {
  switch (part) {
    case records::KernelPart::kAttention:
      return "attention";
    case records::KernelPart::kGlue:
      return "glue";
    case records::KernelPart::kOther:
      break;
  }
  return "other";
}

std::string_view dtype_word(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8:
      return "float8";
    case DType::kInt8:
      return "int8";
    case DType::kOther:
      return "other";
  }
  return "other";
}

std::string device_word(records::Device device) {
  std::string word;
  switch (device.type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      word = "cuda";
      break;
    case DeviceType::kXpu:
      word = "xpu";
      break;
    case DeviceType::kOther:
      word = "other";
      break;
  }
  return device.index < 0 ? word : word + ":" + std::to_string(int{device.index});
}

}  // namespace headscope::aggregate
