#pragma once

#include <cstdint>
#include <memory>

#include "capture/torch/operand_batch.h"
#include "records/attention_call.h"
#include "records/tolerance_sample.h"

namespace headscope::capture::torch {

/// What each of records::kToleranceSettings would have done to the outputs of some rows of a call, of at most
/// kMostSequences of its sequences, against the same rows in fp32. nullptr, with the reason in `problem`, for operands
/// that are not read. Throws what ATen throws. To be called within an UnseenScope.
std::shared_ptr<const records::ToleranceSample> measure_tolerance(const ScoreOperands& operands,
                                                                  const records::AttentionCall& call,
                                                                  std::int64_t most_rows, records::NotSampled& problem);

inline constexpr std::int64_t kMostSequences = 8;

}  // namespace headscope::capture::torch
