#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "capture/tensor_view.h"
#include "capture/torch/weak_storage.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// What a backward needs to know of its forward.
struct ForwardInfo {
  std::uint64_t call_id = 0;
  const records::OpInfo* op = nullptr;
  records::LayerRef layer;
  records::Geometry geometry;
  records::Causal causal = records::Causal::kNone;
  records::Window window;
  records::MaskState mask = records::MaskState::kNone;
  std::shared_ptr<const records::MaskCount> mask_count;
  std::uint64_t mask_bytes = 0;
};

/// Finds the forward of a backward call by the storage that autograd saved for it (the output or the
/// log-sum-exp of a fused op, the probabilities of an eager chain). Each entry holds its storage weakly, so
/// that the address cannot come back for another tensor while the entry stands; the data is freed as ever.
///
/// A table of fixed size that all threads share: a forward replaces the oldest entry of its bucket, and lets go of
/// the freed storages of another bucket, in turn: a weak reference keeps their heads, some 100 bytes each. An
/// entry in use by another thread is skipped, never waited for: a link may be lost, no thread is held up.
class ForwardLinks {
 public:
  /// Nothing happens without a storage, or when nobody keeps it any more.
  void put(const WeakStorage& saved, const ForwardInfo& info) noexcept;
  [[nodiscard]] std::optional<ForwardInfo> find(StorageId saved) const noexcept;

 private:
  static constexpr std::size_t kBuckets = 4096;
  static constexpr std::size_t kWays = 4;

  struct Entry {
    mutable std::atomic_flag busy;
    WeakStorage saved;
    ForwardInfo info;
  };

  static std::size_t bucket_of(StorageId saved) noexcept;
  void forget_freed() noexcept;

  std::array<std::array<Entry, kWays>, kBuckets> buckets_{};
  std::atomic<std::size_t> next_to_clean_{0};
};

}  // namespace headscope::capture::torch
