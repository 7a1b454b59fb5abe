#include "capture/torch/operand_batch.h"

#include <numeric>

#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {
namespace {

using records::NotSampled;

std::int64_t sum(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Q or K as [batch, heads, tokens, dim].
at::Tensor with_batch_and_heads(const at::Tensor& tensor, Layout layout, bool headless) {
  at::Tensor t = tensor;
  if (headless) {
    t = t.unsqueeze(-3);
  } else if (layout == Layout::kBSHD || layout == Layout::kTHD) {
    t = t.transpose(-2, -3);
  }
  while (t.dim() < 4) {
    t = t.unsqueeze(0);
  }
  return t.dim() == 4 ? t : t.flatten(0, t.dim() - 4);
}

/// The mask as [batch or 1, heads or 1, queries, keys], undefined where it is not broadcast so.
at::Tensor broad_mask(const at::Tensor& mask, bool headless, std::int64_t q_len, std::int64_t kv_len) {
  at::Tensor m = headless && mask.dim() > 2 ? mask.unsqueeze(-3) : mask;
  while (m.dim() < 4) {
    m = m.unsqueeze(0);
  }
  const auto fits = [](std::int64_t size, std::int64_t wanted) { return size == 1 || size == wanted; };
  if (m.dim() > 4 || !fits(m.size(2), q_len) || !fits(m.size(3), kv_len)) {
    return {};
  }
  return m.expand({m.size(0), m.size(1), q_len, kv_len});
}

at::Tensor tokens(const at::Tensor& batch, std::int64_t index, bool packed, const std::vector<std::int64_t>* lengths) {
  if (packed) {
    const std::int64_t begin = std::accumulate(lengths->begin(), lengths->begin() + index, std::int64_t{0});
    return batch.select(0, 0).narrow(1, begin, (*lengths)[static_cast<std::size_t>(index)]);
  }
  const at::Tensor one = batch.select(0, batch.size(0) == 1 ? 0 : index);
  return lengths == nullptr ? one : one.narrow(1, 0, (*lengths)[static_cast<std::size_t>(index)]);
}

}  // namespace

ScoreOperands::ScoreOperands(const OpEntry& entry, const Arguments& arguments)
    : layout(entry.layout), paged(arguments.has(Arg::kBlockTable)) {
  const auto take = [&arguments](Arg arg, at::Tensor& into) {
    const at::Tensor* tensor = arguments.tensor(arg);
    if (tensor != nullptr && is_readable(*tensor)) {
      into = *tensor;
    }
  };
  take(Arg::kQuery, q);
  take(Arg::kKey, k);
  take(Arg::kValue, v);
  take(Arg::kMask, mask);
  if (arguments.has(Arg::kScale)) {
    scale = arguments.number(Arg::kScale);
  }
  softcap = arguments.number(Arg::kSoftcap);
  partly_read = arguments.has(Arg::kAlibi) || (q.defined() && q.itemsize() < 2);
}

OperandBatch::OperandBatch(const ScoreOperands& operands, const records::AttentionCall& call, NotSampled& problem)
    : lengths_(call.lengths.get()) {
  for (const at::Tensor* operand : {&operands.q, &operands.k, &operands.v}) {
    if (!operand->defined() || operand->dim() < 2) {
      problem = NotSampled::kShape;
      return;
    }
  }
  const bool headless = operands.layout == Layout::kBHSD && operands.q.dim() <= 3;
  q_ = with_batch_and_heads(operands.q, operands.layout, headless);
  k_ = with_batch_and_heads(operands.k, operands.layout, headless);
  v_ = with_batch_and_heads(operands.v, operands.layout, headless);
  problem = problem_of(operands, call, headless);
}

NotSampled OperandBatch::problem_of(const ScoreOperands& operands, const records::AttentionCall& call, bool headless) {
  if (operands.paged) {
    return NotSampled::kPaged;
  }
  if (call.lengths_unknown) {
    return NotSampled::kLengths;
  }
  const bool grouped = k_.size(1) > 0 && q_.size(1) % k_.size(1) == 0 && v_.size(1) == k_.size(1);
  if (operands.partly_read || !grouped || q_.size(3) != k_.size(3) || v_.size(2) != k_.size(2) ||
      v_.size(0) != k_.size(0)) {
    return NotSampled::kShape;
  }
  if (lengths_ == nullptr) {
    if (operands.mask.defined()) {
      mask_ = broad_mask(operands.mask, headless, q_.size(2), k_.size(2));
    }
    const bool read = operands.mask.defined() == mask_.defined() && (q_.size(0) == k_.size(0) || k_.size(0) == 1);
    return read ? NotSampled::kNone : NotSampled::kShape;
  }
  q_packed_ = q_.size(0) == 1 && sum(lengths_->q) == q_.size(2);
  k_packed_ = k_.size(0) == 1 && sum(lengths_->k) == k_.size(2);
  const auto sequences = static_cast<std::int64_t>(lengths_->q.size());
  const bool apart = (q_packed_ || q_.size(0) == sequences) && (k_packed_ || k_.size(0) == sequences);
  return apart && !operands.mask.defined() ? NotSampled::kNone : NotSampled::kShape;
}

std::int64_t OperandBatch::size() const {
  return lengths_ != nullptr ? static_cast<std::int64_t>(lengths_->q.size()) : q_.size(0);
}

OperandSequence OperandBatch::at(std::int64_t index) const {
  const std::vector<std::int64_t>* of_keys = lengths_ != nullptr ? &lengths_->k : nullptr;
  OperandSequence sequence{tokens(q_, index, q_packed_, lengths_ != nullptr ? &lengths_->q : nullptr),
                           tokens(k_, index, k_packed_, of_keys), tokens(v_, index, k_packed_, of_keys), at::Tensor()};
  if (mask_.defined()) {
    sequence.mask = mask_.select(0, mask_.size(0) == 1 ? 0 : index);
  }
  return sequence;
}

}  // namespace headscope::capture::torch
