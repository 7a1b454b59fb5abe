#include "capture/torch/score_rows.h"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>
#include <utility>

#include "capture/torch/operand_batch.h"
#include "probe/attention_row.h"
#include "probe/row_choice.h"

namespace headscope::capture::torch {
namespace {

using records::NotSampled;

constexpr int kHeads = 0;
constexpr int kRows = 1;

float lowest_of(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Half:
      return -65504.0F;
    case c10::ScalarType::BFloat16:
      return -3.3895313892515355e38F;
    default:  // a double's least value is −∞ as fp32, and so is its half
      return std::numeric_limits<float>::lowest();
  }
}

at::Tensor in_host_memory(const at::Tensor& tensor) { return tensor.to(at::kCPU).contiguous(); }

}  // namespace

RowPlace place_of(const ScoreRows& rows, std::int64_t row, bool heads_in_rows) noexcept {
  return heads_in_rows ? RowPlace{0, 1} : RowPlace{rows.queries[static_cast<std::size_t>(row)], rows.q_len};
}

void admit(std::span<float> scores, const ScoreRows& rows, const records::AttentionCall& call, std::int64_t head,
           std::int64_t row, const RowPlace& place) {
  if (rows.mask.defined()) {
    const std::int64_t line = (rows.mask.size(0) == 1 ? 0 : head) * rows.mask.size(1) + row;
    const std::size_t begin = static_cast<std::size_t>(line) * scores.size();
    if (rows.mask.scalar_type() == at::kBool) {
      probe::apply_mask(scores, std::span(rows.mask.const_data_ptr<bool>() + begin, scores.size()));
    } else {
      probe::apply_mask(scores, std::span(rows.mask.const_data_ptr<float>() + begin, scores.size()), rows.lowest);
    }
  }
  const auto keys = static_cast<std::int64_t>(scores.size());
  probe::admit_only(scores, probe::keys_of_query(call.causal, call.window, place.query, place.q_len, keys));
}

ScoreRows row_places(const OperandSequence& sequence, std::int64_t heads, std::int64_t queries) {
  ScoreRows rows;
  rows.q_len = sequence.q.size(kRows);
  rows.queries = probe::evenly_spaced(sequence.q.size(kHeads) != heads ? rows.q_len : queries, rows.q_len);
  if (sequence.mask.defined()) {
    const at::Tensor mask = sequence.mask.index_select(kRows, index_tensor(rows.queries, sequence.mask));
    rows.lowest = lowest_of(mask.scalar_type());
    rows.mask = in_host_memory(mask.scalar_type() == at::kBool ? mask : mask.to(at::kFloat));
  }
  return rows;
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const ScoreOperands& operands) {
  const double scale = operands.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(2))));
  at::Tensor scores = at::matmul(q.mul(scale).reshape({k.size(kHeads), -1, q.size(2)}), k.transpose(1, 2))
                          .reshape({q.size(kHeads), q.size(kRows), k.size(1)});
  if (operands.softcap > 0) {
    scores = scores.div(operands.softcap).tanh().mul(operands.softcap);
  }
  return scores;
}

at::Tensor index_tensor(const std::vector<std::int64_t>& indices, const at::Tensor& like) {
  return at::tensor(indices, at::TensorOptions().dtype(at::kLong)).to(like.device());
}

std::optional<std::vector<ScoreRows>> score_rows(const ScoreOperands& operands, const records::AttentionCall& call,
                                                 std::int64_t most_rows, NotSampled& problem) {
  const OperandBatch batch(operands, call, problem);
  if (problem != NotSampled::kNone) {
    return std::nullopt;
  }
  const records::Geometry& geometry = call.geometry;
  const probe::RowChoice choice =
      probe::choose_rows(most_rows, batch.size(), geometry.heads, geometry.q_len, geometry.kv_len);
  std::vector<ScoreRows> all;
  for (const std::int64_t index : choice.sequences) {
    const OperandSequence sequence = batch.at(index);
    ScoreRows rows = row_places(sequence, geometry.heads, choice.queries);
    const at::Tensor q = sequence.q.index_select(kRows, index_tensor(rows.queries, sequence.q)).to(at::kFloat);
    rows.scores = in_host_memory(scores_of(q, sequence.k.to(at::kFloat), operands));
    all.push_back(std::move(rows));
  }
  return all;
}

std::shared_ptr<const ChainScores> chain_scores(const at::Tensor& scores, std::int64_t heads, std::int64_t most_rows) {
  at::Tensor s = scores;
  if (s.dim() == 3) {
    const std::int64_t merged = s.size(0);
    const std::int64_t apart = heads > 0 && merged % heads == 0 ? heads : merged;
    s = apart == 0 ? s : s.unflatten(0, {merged / apart, apart});
  }
  if (s.dim() != 4 || s.numel() == 0 || !at::isFloatingType(s.scalar_type())) {
    return nullptr;
  }
  auto chain = std::make_shared<ChainScores>();
  chain->heads = s.size(1);
  chain->keys = s.size(3);
  const probe::RowChoice choice = probe::choose_rows(most_rows, s.size(0), s.size(1), s.size(2), s.size(3));
  for (const std::int64_t index : choice.sequences) {
    ScoreRows rows;
    rows.q_len = s.size(2);
    rows.queries = probe::evenly_spaced(choice.queries, rows.q_len);
    const at::Tensor sequence = s.select(0, index);
    at::Tensor chosen = sequence.index_select(kRows, index_tensor(rows.queries, s)).to(at::kFloat);
    // Masks were added to the scores: what is out has the least finite value, or nearly so.
    rows.scores = in_host_memory(
        chosen.masked_fill(chosen.le(lowest_of(s.scalar_type()) / 2), -std::numeric_limits<float>::infinity()));
    chain->sequences.push_back(std::move(rows));
  }
  return chain;
}

}  // namespace headscope::capture::torch
