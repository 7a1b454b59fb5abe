#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "capture/tensor_view.h"

namespace headscope::capture::torch {

/// True for a tensor whose sizes and storage may be asked for: plain strided data. False for undefined,
/// Python (FakeTensor and other subclasses), meta, functional, batched, nested and sparse tensors.
/// Looks at the dispatch key set first: the mere question for `.sizes()` specialises a FakeTensor.
bool is_readable(const at::Tensor& tensor) noexcept;

records::Device device_of(c10::Device device) noexcept;

/// Identity of a readable tensor's storage.
StorageId storage_of(const at::Tensor& tensor) noexcept;

/// Shape and place of a readable tensor; dims is −1 beyond TensorView::kMaxDims axes.
TensorView view_of(const at::Tensor& tensor) noexcept;
/// The same into `view`, without a copy.
void read_view(const at::Tensor& tensor, TensorView& view) noexcept;

}  // namespace headscope::capture::torch
