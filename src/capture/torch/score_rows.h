#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "capture/torch/operand_batch.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// Some queries of one sequence with their scores, in host memory.
struct ScoreRows {
  at::Tensor scores;                  ///< fp32 [heads, rows, keys], contiguous; −∞: not admitted
  at::Tensor mask;                    ///< bool or fp32 [1 or heads, rows, keys], contiguous; undefined: none
  float lowest = 0;                   ///< the least finite value of the dtype that the mask had
  std::vector<std::int64_t> queries;  ///< of each row
  std::int64_t q_len = 0;
};

/// Where a row's query stands among those of its sequence.
struct RowPlace {
  std::int64_t query = 0;
  std::int64_t q_len = 0;
};
/// `heads_in_rows`: each row is a head, and all of them are of one query.
RowPlace place_of(const ScoreRows& rows, std::int64_t row, bool heads_in_rows) noexcept;

/// Adds the mask to one row of one head, and sets what it, causality and the window leave out to −∞.
void admit(std::span<float> scores, const ScoreRows& rows, const records::AttentionCall& call, std::int64_t head,
           std::int64_t row, const RowPlace& place);

/// Scores of a hand-written chain as its softmax read them: sampled when the softmax ran, since they may be gone, or
/// overwritten, when the chain is known to be attention.
struct ChainScores {
  std::vector<ScoreRows> sequences;
  std::int64_t heads = 0;
  std::int64_t keys = 0;
};

/// What a forward call's attention weights are sampled from, once its layer and direction are known.
struct ProbeSource {
  std::optional<ScoreOperands> operands;     ///< of a fused or composite op
  std::shared_ptr<const ChainScores> chain;  ///< of a hand-written chain
  /// Why there is neither.
  records::NotSampled missing = records::NotSampled::kHiddenOperands;
  bool tolerance = false;        ///< measure what cheaper settings would do
  std::int64_t sampling_ns = 0;  ///< what was spent on it while the chain ran
};

/// `queries` evenly spaced rows of a sequence and their mask, without scores. Query heads that lie in the query axis
/// (delivery.cpp) are rows there, all of which are taken.
ScoreRows row_places(const OperandSequence& sequence, std::int64_t heads, std::int64_t queries);
/// softcap(scale · Q·Kᵀ) as [heads, rows, keys] of fp32 q [heads, rows, dim] and k [key heads, keys, dim].
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const ScoreOperands& operands);
at::Tensor index_tensor(const std::vector<std::int64_t>& indices, const at::Tensor& like);

/// softcap(scale · Q·Kᵀ) of sampled rows; causality and window are left to the reader. std::nullopt, with the reason in
/// `problem`, for operands that are not read. Throws what ATen throws.
std::optional<std::vector<ScoreRows>> score_rows(const ScoreOperands& operands, const records::AttentionCall& call,
                                                 std::int64_t most_rows, records::NotSampled& problem);

/// Rows of the scores [batch, heads, queries, keys] or [batch · heads, queries, keys] that a softmax is about to read;
/// `heads`: of a merged axis, 0 when not known. nullptr for another form.
std::shared_ptr<const ChainScores> chain_scores(const at::Tensor& scores, std::int64_t heads, std::int64_t most_rows);

}  // namespace headscope::capture::torch
