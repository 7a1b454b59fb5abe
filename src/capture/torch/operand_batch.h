#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/op_table.h"
#include "capture/torch/schema_arguments.h"
#include "records/attention_call.h"

namespace headscope::capture::torch {

/// The operands of a forward op, held while it runs, from which its weights can be made again.
struct ScoreOperands {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor mask;
  std::optional<double> scale;
  double softcap = 0;
  Layout layout = Layout::kBHSD;
  bool paged = false;
  /// Scores have parts that are not read: ALiBi, the scales of an fp8 dtype.
  bool partly_read = false;

  ScoreOperands(const OpEntry& entry, const Arguments& arguments);
};

/// One sequence of a batch: [heads, queries or keys, dim].
struct OperandSequence {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor mask;  ///< [1 or heads, queries, keys]; undefined: none
};

/// Operands, sequence by sequence, as views.
class OperandBatch {
 public:
  /// Says in `problem` why the operands are not read; then nothing else may be asked.
  OperandBatch(const ScoreOperands& operands, const records::AttentionCall& call, records::NotSampled& problem);

  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] OperandSequence at(std::int64_t index) const;

 private:
  [[nodiscard]] records::NotSampled problem_of(const ScoreOperands& operands, const records::AttentionCall& call,
                                               bool headless);

  at::Tensor q_;
  at::Tensor k_;
  at::Tensor v_;
  at::Tensor mask_;
  const records::Lengths* lengths_;
  bool q_packed_ = false;
  bool k_packed_ = false;
};

}  // namespace headscope::capture::torch
