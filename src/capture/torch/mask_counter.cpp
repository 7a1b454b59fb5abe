#include "capture/torch/mask_counter.h"

#include <optional>

#include "capture/operand.h"
#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {
namespace {

std::optional<MaskType> type_of(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Bool:
      return MaskType::kBool;
    case c10::ScalarType::Float:
      return MaskType::kFloat32;
    case c10::ScalarType::Double:
      return MaskType::kFloat64;
    case c10::ScalarType::Half:
      return MaskType::kFloat16;
    case c10::ScalarType::BFloat16:
      return MaskType::kBFloat16;
    default:
      return std::nullopt;
  }
}

bool same_place(const TensorView& a, const TensorView& b) noexcept {
  return a.storage == b.storage && a.offset == b.offset && a.dims == b.dims && a.dtype == b.dtype &&
         a.sizes == b.sizes && a.strides == b.strides;
}

}  // namespace

MaskCounter::Result MaskCounter::count(const at::Tensor& mask, bool true_is_masked, const records::Geometry& geometry,
                                       records::CallSink& sink) {
  const TensorView view = view_of(mask);
  Result result;
  if (view.dims < 0) {
    return result;
  }
  result.stored_bytes = operand_of(view).bytes();
  const std::optional<MaskType> type = type_of(mask.scalar_type());
  if (!type || !mask.device().is_cpu()) {
    return result;
  }
  const bool versioned = !mask.is_inference();
  const std::uint32_t version = versioned ? static_cast<std::uint32_t>(mask._version()) : 0;
  if (versioned) {
    for (const Entry& entry : entries_) {
      if (entry.count && same_place(entry.view, view) && entry.version == version &&
          entry.true_is_masked == true_is_masked && entry.geometry == geometry && !entry.storage.expired()) {
        return {records::MaskState::kCounted, entry.count, result.stored_bytes};
      }
    }
  }
  if (!sink.spend_mask_budget(scanned_elements(view))) {
    return result;
  }
  std::optional<records::MaskCount> scanned = scan_mask({mask.const_data_ptr(), *type, true_is_masked, view}, geometry);
  if (!scanned) {
    return result;
  }
  result.state = records::MaskState::kCounted;
  result.count = std::make_shared<const records::MaskCount>(*std::move(scanned));
  if (versioned) {
    entries_[next_++ % kEntries] = {
        mask.storage().getWeakStorageImpl(), view, version, true_is_masked, geometry, result.count};
  }
  return result;
}

}  // namespace headscope::capture::torch
