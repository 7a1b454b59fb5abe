#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/op_table.h"
#include "capture/torch/schema_arguments.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// Scores of some queries of one sequence, in host memory.
struct ScoreRows {
  at::Tensor scores;                  ///< fp32 [heads, rows, keys], contiguous; −∞: not admitted
  at::Tensor mask;                    ///< bool or fp32 [1 or heads, rows, keys], contiguous; undefined: none
  float lowest = 0;                   ///< the least finite value of the dtype that the mask had
  std::vector<std::int64_t> queries;  ///< of each row
  std::int64_t q_len = 0;
};

/// The operands of a forward op, held while it runs, from which its scores can be made again.
struct ScoreOperands {
  at::Tensor q;
  at::Tensor k;
  at::Tensor mask;
  std::optional<double> scale;
  double softcap = 0;
  Layout layout = Layout::kBHSD;
  bool paged = false;
  /// Scores have parts that are not read: ALiBi, the scales of an fp8 dtype.
  bool partly_read = false;

  ScoreOperands(const OpEntry& entry, const Arguments& arguments);
};

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
  std::int64_t sampling_ns = 0;  ///< what was spent on it while the chain ran
};

/// While it lives, what this thread runs is seen by no autograd, mode, autocast, profiler or memory report: the
/// program's results, records and figures stay as they would be.
class UnseenScope {
 public:
  UnseenScope();
  UnseenScope(const UnseenScope&) = delete;
  UnseenScope& operator=(const UnseenScope&) = delete;
  ~UnseenScope();

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

/// Whether reading a tensor of `device` would break a CUDA graph's capture, or may.
bool may_be_captured(c10::Device device);

/// softcap(scale · Q·Kᵀ) of sampled rows; causality and window are left to the reader. std::nullopt, with the reason in
/// `problem`, for operands that are not read. Throws what ATen throws.
std::optional<std::vector<ScoreRows>> score_rows(const ScoreOperands& operands, const records::AttentionCall& call,
                                                 std::int64_t most_rows, records::NotSampled& problem);

/// Rows of the scores [batch, heads, queries, keys] or [batch · heads, queries, keys] that a softmax is about to read;
/// `heads`: of a merged axis, 0 when not known. nullptr for another form.
std::shared_ptr<const ChainScores> chain_scores(const at::Tensor& scores, std::int64_t heads, std::int64_t most_rows);

}  // namespace headscope::capture::torch
