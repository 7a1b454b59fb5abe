#pragma once

#include <optional>

#include "capture/fallback.h"
#include "capture/op_table.h"
#include "capture/torch/delivery.h"
#include "capture/torch/schema_arguments.h"

namespace headscope::capture::torch {

/// An open composite op: scaled_dot_product_attention or native multi-head attention. What runs inside
/// is its one call, which takes from it the arguments that the inner op does not have.
struct Frame {
  const OpEntry* entry = nullptr;
  records::Watch watch;
  SdpaArguments arguments;
  std::int64_t native_heads = 0;
  MaskCounter::Result mask;
  ForwardPlace place;
  /// Set when the call's attention weights are sampled.
  std::optional<ProbeSource> probe;

  /// The call captured inside.
  std::optional<records::AttentionCall> inner;
  SavedStorages saved{};

  /// Takes the call captured inside. A second one completes the first as it is.
  void accept(records::AttentionCall&& call, const SavedStorages& storages);
};

/// Reads the arguments. False when they are not readable: the op runs unobserved.
bool open_frame(Frame& frame, const OpEntry& entry, const records::Watch& watch, const Arguments& arguments,
                ThreadState& state);

/// What the math path of the frame's op may allocate. Score matrices are left out where an operand has as many
/// elements, so that allocations do not tell them apart.
ExpectedAllocations expected_allocations(const Frame& frame) noexcept;

/// Delivers the frame's call; `own` is the span of the composite op. The frame is no longer the thread's.
void close_frame(Frame& frame, const Redispatch& own, ThreadState& state);

}  // namespace headscope::capture::torch
