#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>

#include "capture/mask_scan.h"
#include "records/attention_call.h"
#include "records/call_sink.h"

namespace headscope::capture::torch {

/// Counts what explicit masks admit, and remembers it while a mask's storage lives unchanged: a model
/// passes one mask to all its layers. Remembers by weak reference and version counter, so it keeps no
/// tensor's data alive; inference tensors have no version and are counted each time.
class MaskCounter {
 public:
  struct Result {
    records::MaskState state = records::MaskState::kOpaque;
    std::shared_ptr<const records::MaskCount> count;
    std::uint64_t stored_bytes = 0;
  };

  /// `mask` must be readable. Masks on other devices than the CPU and masks beyond the step's budget are
  /// opaque.
  Result count(const at::Tensor& mask, bool true_is_masked, const records::Geometry& geometry, records::CallSink& sink);

 private:
  static constexpr std::size_t kEntries = 8;

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
    TensorView view;
    std::uint32_t version = 0;
    bool true_is_masked = false;
    records::Geometry geometry;
    std::shared_ptr<const records::MaskCount> count;
  };

  std::array<Entry, kEntries> entries_{};
  std::size_t next_ = 0;
};

}  // namespace headscope::capture::torch
