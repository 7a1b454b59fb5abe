#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// When an op ran and what it allocated.
struct OpSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t allocated_bytes = -1;  ///< −1: not measured
  std::int64_t peak_bytes = -1;
  std::uint64_t op = 0;  ///< CallObserver's id; 0: none

  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - start_ns; }
};

/// What the ops of one chain have cost so far, and where its scores or probabilities are.
struct EagerWork {
  /// Storage and elements of the scores (before the softmax) or probabilities (after), as the last op
  /// that was seen wrote them.
  StorageId latest = 0;
  std::int64_t latest_elements = 0;
  /// False once an op that was not seen must have run between two that were.
  bool linked = true;
  /// False once an op read a score-sized tensor that unseen ops had written (the mask of a dropout).
  bool complete = true;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t time_ns = 0;
  std::int64_t glue_ns = -1;  ///< −1 without detail
  records::OpRange device_ops;
  std::int64_t allocated_bytes = -1;
  std::int64_t peak_bytes = -1;
  std::uint64_t traffic_bytes = 0;
  std::uint64_t score_bytes = 0;
  std::uint64_t kv_copy_bytes = 0;
  std::uint64_t mask_copy_bytes = 0;

  records::MaskState mask = records::MaskState::kNone;
  std::shared_ptr<const records::MaskCount> mask_count;
  std::uint64_t mask_bytes = 0;
  /// A mask was seen, but nobody said what it admits.
  bool mask_unanswered = false;

  void begin(const OpSpan& span) noexcept {
    start_ns = span.start_ns;
    end_ns = span.end_ns;
  }
  /// `held_bytes`: score-sized tensors that the op reads, hence allocated while it runs.
  void add_memory(const OpSpan& span, std::uint64_t held_bytes) noexcept {
    end_ns = std::max(end_ns, span.end_ns);
    if (span.allocated_bytes >= 0) {
      allocated_bytes = std::max<std::int64_t>(allocated_bytes, 0) + span.allocated_bytes;
    }
    if (span.peak_bytes >= 0) {
      peak_bytes = std::max(peak_bytes, span.peak_bytes + static_cast<std::int64_t>(held_bytes));
    }
  }
  /// A product or a softmax.
  void add_op(const OpSpan& span, std::uint64_t held_bytes) noexcept {
    time_ns += span.duration_ns();
    device_ops.add(span.op);
    add_memory(span, held_bytes);
  }
  /// Scores or probabilities are at `view`.
  void move_to(const TensorView& view) noexcept {
    latest = view.storage;
    latest_elements = view.elements();
  }
  /// `score_elements`: what a view without the sink's column has.
  [[nodiscard]] bool holds(const TensorView& view, std::int64_t score_elements) const noexcept {
    if (view.storage == 0 || view.dims <= 0 || view.storage != latest) {
      return false;
    }
    const std::int64_t elements = view.elements();
    return elements == latest_elements || elements == score_elements;
  }
  /// Takes over what another product of the same chain has cost.
  void absorb(EagerWork& other) noexcept {
    start_ns = std::min(start_ns, other.start_ns);
    end_ns = std::max(end_ns, other.end_ns);
    time_ns += other.time_ns;
    device_ops.add(other.device_ops);
    glue_ns += std::max<std::int64_t>(other.glue_ns, 0);
    if (other.allocated_bytes >= 0) {
      allocated_bytes = std::max<std::int64_t>(allocated_bytes, 0) + other.allocated_bytes;
    }
    peak_bytes = std::max(peak_bytes, other.peak_bytes);
    traffic_bytes += other.traffic_bytes;
    score_bytes += other.score_bytes;
    complete = complete && other.complete;
  }
  /// Copies of K, V or masks: written once and read once.
  void add_kv_copy(std::uint64_t bytes) noexcept {
    kv_copy_bytes += bytes;
    traffic_bytes += 2 * bytes;
  }
  void add_mask_copy(std::uint64_t bytes) noexcept {
    mask_copy_bytes += bytes;
    traffic_bytes += 2 * bytes;
  }
};

}  // namespace headscope::capture
