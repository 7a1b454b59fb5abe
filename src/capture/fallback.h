#pragma once

#include <optional>

#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// Arguments of scaled_dot_product_attention, as far as torch's choice of a backend looks at them.
struct SdpaArguments {
  TensorView q, k, v;
  std::optional<TensorView> mask;
  bool causal = false;
  bool has_dropout = false;
  bool mask_requires_grad = false;
  bool nested = false;
  /// The user allows a fused backend (torch.nn.attention.sdpa_kernel).
  bool fused_enabled = true;
};

/// Why torch takes the math path for `arguments` on the CPU: the first of its checks that fails
/// (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, use_flash_attention_cpp). kUnknown where none
/// explains it and on other devices, whose checks depend on the GPU and its libraries.
records::FallbackReason math_reason(const SdpaArguments& arguments) noexcept;

}  // namespace headscope::capture
