#include "capture/torch/tolerance_probe.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "capture/torch/score_rows.h"
#include "probe/attention_row.h"
#include "probe/row_choice.h"

namespace headscope::capture::torch {
namespace {

using records::ToleranceSetting;
using Cast = ToleranceSetting::Cast;
using Kind = ToleranceSetting::Kind;

constexpr double kInt8Most = 127;
constexpr double kE4M3Most = 448;
constexpr double kE5M2Most = 57344;
/// Bytes of an int8 token's scale, and of its zero sum: one fp32.
constexpr double kScaleBytes = 4;

at::Tensor scales(const at::Tensor& tensor, at::IntArrayRef axes, double most) {
  return tensor.abs().amax(axes, true).div(most).clamp_min(std::numeric_limits<float>::min());
}

/// [heads, tokens, dim] through a narrower dtype and back: fp8 with a scale a head, int8 with a scale a token.
at::Tensor through(const at::Tensor& tensor, Cast cast) {
  const auto scaled = [&tensor](double most, at::ScalarType type) {
    const at::Tensor scale = scales(tensor, {1, 2}, most);
    return tensor.div(scale).to(type).to(at::kFloat).mul(scale);
  };
  switch (cast) {
    case Cast::kBFloat16:
      return tensor.to(at::kBFloat16).to(at::kFloat);
    case Cast::kFloat8E4M3:
      return scaled(kE4M3Most, at::ScalarType::Float8_e4m3fn);
    case Cast::kFloat8E5M2:
      return scaled(kE5M2Most, at::ScalarType::Float8_e5m2);
    case Cast::kInt8PerToken: {
      const at::Tensor scale = scales(tensor, {2}, kInt8Most);
      return tensor.div(scale).round().mul(scale);
    }
    case Cast::kNone:
      break;
  }
  return tensor;
}

/// Share of the bytes of K and V that a narrower dtype saves, of `element` bytes an element.
double saved_by(Cast cast, double element, double dim, double dim_v) {
  double share = 0;
  switch (cast) {
    case Cast::kBFloat16:
      share = 1 - 2 / element;
      break;
    case Cast::kFloat8E4M3:
    case Cast::kFloat8E5M2:
      share = 1 - 1 / element;
      break;
    case Cast::kInt8PerToken:
      share = 1 - (dim + dim_v + 2 * kScaleBytes) / ((dim + dim_v) * element);
      break;
    case Cast::kNone:
      break;
  }
  return std::max(share, 0.0);
}

/// What the mask, causality and window admit: 0 or the mask's value, else −∞; and where each query stands.
struct Admission {
  at::Tensor added;     // [1 or heads, rows, keys]
  at::Tensor position;  // [1 or heads, rows, 1]
};

Admission admission_of(const ScoreRows& rows, const records::AttentionCall& call, bool heads_in_rows,
                       std::int64_t keys) {
  const std::int64_t heads = rows.mask.defined() ? rows.mask.size(0) : 1;
  const auto count = static_cast<std::int64_t>(rows.queries.size());
  Admission admission{at::zeros({heads, count, keys}, at::kFloat), at::zeros({heads, count, 1}, at::kLong)};
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t at_row = head * count + row;
      const std::span line(admission.added.mutable_data_ptr<float>() + at_row * keys, static_cast<std::size_t>(keys));
      const RowPlace place = place_of(rows, row, heads_in_rows);
      admit(line, rows, call, head, row, place);
      std::int64_t last = keys - 1;
      while (last > 0 && line[static_cast<std::size_t>(last)] == -std::numeric_limits<float>::infinity()) {
        --last;
      }
      admission.position.mutable_data_ptr<std::int64_t>()[at_row] =
          std::min(last, probe::position_of_query(call.causal, place.query, place.q_len, keys));
    }
  }
  return admission;
}

/// One sequence whose rows are attended again and again.
class Trial {
 public:
  Trial(const OperandSequence& sequence, const ScoreRows& rows, const records::AttentionCall& call,
        const ScoreOperands& operands)
      : operands_(operands), call_(call) {
    q_ = sequence.q.index_select(1, index_tensor(rows.queries, sequence.q)).to(at::kFloat);
    k_ = sequence.k.to(at::kFloat);
    v_ = sequence.v.to(at::kFloat);
    const bool heads_in_rows = q_.size(0) != call.geometry.heads;
    const Admission admission = admission_of(rows, call, heads_in_rows, k_.size(1));
    added_ = admission.added.to(q_.device());
    distance_ = at::arange(k_.size(1), at::TensorOptions(at::kLong).device(q_.device()))
                    .sub(admission.position.to(q_.device()))
                    .abs();
    admitted_ = added_.gt(-std::numeric_limits<float>::infinity());
    scores_ = scores_of(q_, k_, operands_).add(added_);
    output_ = attend(scores_, v_);
  }

  void add_to(std::vector<records::HeadTolerance>& heads, double kv_bytes) const {
    add(output_.square(), [&heads](std::size_t head, double sum) { heads[head].reference += sum; });
    const auto element = static_cast<double>(operands_.k.itemsize());
    const auto dim = static_cast<double>(k_.size(2));
    const auto dim_v = static_cast<double>(v_.size(2));
    for (std::size_t i = 0; i < records::kToleranceSettings.size(); ++i) {
      const ToleranceSetting& setting = records::kToleranceSettings[i];
      at::Tensor changed;
      if (setting.cast != Cast::kNone) {
        const at::Tensor q = setting.kind == Kind::kCastQkv ? through(q_, setting.cast) : q_;
        changed = attend(scores_of(q, through(k_, setting.cast), operands_).add(added_), through(v_, setting.cast));
        const double saved = kv_bytes * saved_by(setting.cast, element, dim, dim_v);
        for (records::HeadTolerance& head : heads) {
          head.saved_bytes[i] += saved;
        }
      } else {
        const at::Tensor kept = kept_by(setting).logical_and(admitted_);
        changed = attend(scores_.masked_fill(kept.logical_not(), -std::numeric_limits<float>::infinity()), v_);
        // The highest scores are known only once all keys were read.
        const double of_bytes = setting.kind == Kind::kTopK ? dim_v / (dim + dim_v) : 1;
        const at::Tensor all = admitted_.expand_as(scores_).to(at::kDouble);
        const at::Tensor share =
            by_head(kept.expand_as(scores_).to(at::kDouble)).div(by_head(all).clamp_min(1)).mul(-1).add(1);
        for_each(share,
                 [&](std::size_t head, double saved) { heads[head].saved_bytes[i] += kv_bytes * of_bytes * saved; });
      }
      add(changed.sub(output_).square(), [&heads, i](std::size_t head, double sum) { heads[head].error[i] += sum; });
    }
  }

  [[nodiscard]] std::uint64_t rows_of_head() const {
    return static_cast<std::uint64_t>(q_.size(0) * q_.size(1) / call_.geometry.heads);
  }

 private:
  [[nodiscard]] at::Tensor attend(const at::Tensor& scores, const at::Tensor& v) const {
    // A row that admits nothing is no number after the softmax, and 0 in every kernel.
    const at::Tensor weights = at::softmax(scores, -1).nan_to_num(0.0);
    return at::matmul(weights.reshape({v.size(0), -1, scores.size(2)}), v)
        .reshape({scores.size(0), scores.size(1), v.size(2)});
  }

  [[nodiscard]] at::Tensor kept_by(const ToleranceSetting& setting) const {
    switch (setting.kind) {
      case Kind::kWindow:
        return distance_.lt(setting.size);
      case Kind::kSinkWindow:
        return distance_.lt(setting.size).logical_or(admitted_.cumsum(-1).le(records::kSinkKeys));
      case Kind::kTopK: {
        const std::int64_t count = std::min(setting.size, scores_.size(2));
        // By place, not by value: of equal scores no more than `count` are kept.
        return at::zeros_like(scores_, at::kBool).scatter(-1, std::get<1>(scores_.topk(count, -1)), true);
      }
      case Kind::kCastKv:
      case Kind::kCastQkv:
        break;
    }
    return admitted_;
  }

  /// Sums of [heads or key heads, rows, x] by query head, in host memory.
  [[nodiscard]] at::Tensor by_head(const at::Tensor& values) const {
    return values.to(at::kDouble).reshape({call_.geometry.heads, -1}).sum(1).to(at::kCPU);
  }
  template <class Visit>
  static void for_each(const at::Tensor& sums, Visit visit) {
    const double* begin = sums.const_data_ptr<double>();
    for (std::int64_t head = 0; head < sums.size(0); ++head) {
      visit(static_cast<std::size_t>(head), begin[head]);
    }
  }
  template <class Visit>
  void add(const at::Tensor& values, Visit visit) const {
    for_each(by_head(values), visit);
  }

  const ScoreOperands& operands_;
  const records::AttentionCall& call_;
  at::Tensor q_;
  at::Tensor k_;
  at::Tensor v_;
  at::Tensor added_;
  at::Tensor admitted_;
  at::Tensor distance_;
  at::Tensor scores_;
  at::Tensor output_;
};

}  // namespace

std::shared_ptr<const records::ToleranceSample> measure_tolerance(const ScoreOperands& operands,
                                                                  const records::AttentionCall& call,
                                                                  std::int64_t most_rows,
                                                                  records::NotSampled& problem) {
  const OperandBatch batch(operands, call, problem);
  if (problem != records::NotSampled::kNone) {
    return nullptr;
  }
  const records::Geometry& geometry = call.geometry;
  probe::RowChoice choice =
      probe::choose_rows(most_rows, batch.size(), geometry.heads, geometry.q_len, geometry.kv_len);
  const std::vector<std::int64_t> some =
      probe::evenly_spaced(kMostSequences, static_cast<std::int64_t>(choice.sequences.size()));
  auto sample = std::make_shared<records::ToleranceSample>();
  sample->heads.resize(static_cast<std::size_t>(geometry.heads));
  const double kv_bytes = static_cast<double>(call.k.bytes() + call.v.bytes()) / static_cast<double>(geometry.heads);
  for (const std::int64_t place : some) {
    const OperandSequence sequence = batch.at(choice.sequences[static_cast<std::size_t>(place)]);
    const Trial trial(sequence, row_places(sequence, geometry.heads, choice.queries), call, operands);
    trial.add_to(sample->heads, kv_bytes / static_cast<double>(some.size()));
    for (records::HeadTolerance& head : sample->heads) {
      head.rows += trial.rows_of_head();
    }
  }
  for (records::HeadTolerance& head : sample->heads) {
    head.calls = 1;
    head.kv_bytes = kv_bytes;
  }
  return sample;
}

}  // namespace headscope::capture::torch
