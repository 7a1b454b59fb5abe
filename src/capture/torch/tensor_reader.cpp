#include "capture/torch/tensor_reader.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

namespace headscope::capture::torch {
namespace {

constexpr c10::DispatchKeySet kUnreadable{c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                          c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper};

records::DType dtype_of(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Float:
      return records::DType::kFloat32;
    case c10::ScalarType::Double:
      return records::DType::kFloat64;
    case c10::ScalarType::Half:
      return records::DType::kFloat16;
    case c10::ScalarType::BFloat16:
      return records::DType::kBFloat16;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return records::DType::kFloat8;
    case c10::ScalarType::Char:
    case c10::ScalarType::Byte:
      return records::DType::kInt8;
    default:
      return records::DType::kOther;
  }
}

}  // namespace

records::Device device_of(c10::Device device) noexcept {
  records::Device result{records::DeviceType::kOther, static_cast<std::int8_t>(device.index())};
  if (device.is_cpu()) {
    result.type = records::DeviceType::kCpu;
  } else if (device.is_cuda()) {
    result.type = records::DeviceType::kCuda;
  } else if (device.is_xpu()) {
    result.type = records::DeviceType::kXpu;
  }
  return result;
}

bool is_readable(const at::Tensor& tensor) noexcept {
  if (!tensor.defined()) {
    return false;
  }
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl.key_set();
  return !keys.has_any(kUnreadable) && !keys.has_backend(c10::BackendComponent::MetaBit) && !tensor.is_nested() &&
         impl.layout() == c10::Layout::Strided && !impl.has_symbolic_sizes_strides() && impl.has_storage();
}

StorageId storage_of(const at::Tensor& tensor) noexcept {
  return reinterpret_cast<StorageId>(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

TensorView view_of(const at::Tensor& tensor) noexcept {
  TensorView view;
  read_view(tensor, view);
  return view;
}

void read_view(const at::Tensor& tensor, TensorView& view) noexcept {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  view.storage = storage_of(tensor);
  view.offset = impl.storage_offset();
  view.element_size = static_cast<std::uint32_t>(impl.itemsize());
  view.dtype = dtype_of(c10::typeMetaToScalarType(impl.dtype()));
  view.device = device_of(impl.device());
  const c10::IntArrayRef sizes = impl.sizes();
  const c10::IntArrayRef strides = impl.strides();
  if (sizes.size() > TensorView::kMaxDims) {
    view.dims = -1;
    return;
  }
  view.dims = static_cast<int>(sizes.size());
  for (std::size_t axis = 0; axis < TensorView::kMaxDims; ++axis) {
    view.sizes[axis] = axis < sizes.size() ? sizes[axis] : 0;
    view.strides[axis] = axis < sizes.size() ? strides[axis] : 0;
  }
}

}  // namespace headscope::capture::torch
