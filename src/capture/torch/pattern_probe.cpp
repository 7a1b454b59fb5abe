#include "capture/torch/pattern_probe.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "capture/layers.h"
#include "capture/torch/thread_state.h"
#include "capture/torch/tolerance_probe.h"
#include "capture/torch/unseen_scope.h"
#include "probe/attention_row.h"
#include "probe/row_choice.h"

namespace headscope::capture::torch {
namespace {

using records::NotSampled;

/// What tolerance costs beside patterns, about: each setting attends again.
constexpr std::int64_t kToleranceCosts = 16;

/// Counts the time between its making and its end as the profiler's own.
class SamplingTime {
 public:
  SamplingTime() noexcept : start_ns_(base::monotonic_ns()) {}
  SamplingTime(const SamplingTime&) = delete;
  SamplingTime& operator=(const SamplingTime&) = delete;
  ~SamplingTime() { sink()->count_sampling(base::monotonic_ns() - start_ns_); }

 private:
  std::int64_t start_ns_;
};

/// Reads the rows of one head of the scores; `masked`: their mask and the call's causality and window are to be
/// applied.
class HeadOfScores {
 public:
  HeadOfScores(const records::AttentionCall& call, bool masked) : call_(call), masked_(masked) {}

  void read(const ScoreRows& rows, std::int64_t head, std::vector<records::HeadSample>& heads) {
    const auto keys = static_cast<std::size_t>(rows.scores.size(2));
    const std::int64_t count = rows.scores.size(1);
    const bool heads_in_rows = rows.scores.size(0) != call_.geometry.heads;
    for (std::int64_t row = 0; row < count; ++row) {
      const float* begin = rows.scores.const_data_ptr<float>() + static_cast<std::size_t>(head * count + row) * keys;
      scores_.assign(begin, begin + keys);
      const RowPlace place = place_of(rows, row, heads_in_rows);
      if (masked_) {
        admit(scores_, rows, call_, head, row, place);
      }
      const auto kv_len = static_cast<std::int64_t>(keys);
      const std::optional<std::int64_t> position =
          call_.cross ? std::nullopt
                      : std::optional(probe::position_of_query(call_.causal, place.query, place.q_len, kv_len));
      reader_.read(scores_, position, heads[static_cast<std::size_t>(heads_in_rows ? head * count + row : head)]);
    }
  }

 private:
  const records::AttentionCall& call_;
  bool masked_;
  probe::RowReader reader_;
  std::vector<float> scores_;
};

std::shared_ptr<const records::PatternSample> read_all(const std::vector<ScoreRows>& sequences,
                                                       const records::AttentionCall& call, bool masked) {
  auto sample = std::make_shared<records::PatternSample>();
  sample->cross = call.cross;
  sample->heads.resize(static_cast<std::size_t>(call.geometry.heads));
  if (sequences.empty()) {
    return sample;
  }
  at::parallel_for(0, sequences.front().scores.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    HeadOfScores reader(call, masked);
    for (std::int64_t head = begin; head < end; ++head) {
      for (const ScoreRows& rows : sequences) {
        reader.read(rows, head, sample->heads);
      }
    }
  });
  return sample;
}

/// Takes what a call with these scores may need from the step's budget.
bool spend(std::int64_t heads, std::int64_t keys) noexcept {
  return sink()->spend_pattern_budget(std::min(heads * keys * sink()->pattern_rows(), probe::kMostScores));
}

NotSampled try_to_sample(records::AttentionCall& call, const ProbeSource& source) {
  const records::Geometry& geometry = call.geometry;
  if (source.chain) {
    if (source.chain->heads != geometry.heads || source.chain->keys != geometry.kv_len) {
      return NotSampled::kShape;
    }
    call.pattern_sample = read_all(source.chain->sequences, call, false);
    return NotSampled::kNone;
  }
  if (!source.operands) {
    return source.missing;
  }
  if (geometry.heads <= 0 || geometry.q_len <= 0 || geometry.kv_len <= 0) {
    return NotSampled::kShape;
  }
  const ScoreOperands& operands = *source.operands;
  if (operands.q.defined() && may_be_captured(operands.q.device())) {
    return NotSampled::kCapture;
  }
  if (!spend(geometry.heads, geometry.kv_len)) {
    return NotSampled::kBudget;
  }
  const UnseenScope unseen;
  NotSampled problem = NotSampled::kNone;
  if (const auto rows = score_rows(operands, call, sink()->pattern_rows(), problem)) {
    call.pattern_sample = read_all(*rows, call, true);
    if (source.tolerance && spend(kToleranceCosts * geometry.heads, geometry.kv_len)) {
      call.tolerance_sample = measure_tolerance(operands, call, sink()->pattern_rows(), problem);
    }
  }
  return problem;
}

}  // namespace

void sample_patterns(records::AttentionCall& call, const ProbeSource& source) noexcept {
  const SamplingTime time;
  try {
    call.not_sampled = try_to_sample(call, source);
  } catch (...) {
    sink()->count_hook_error();
    call.not_sampled = NotSampled::kFailed;
  }
}

std::optional<ProbeSource> sample_chain(const at::Tensor& scores, std::uint32_t label) noexcept {
  if (scores.dim() != 3 && scores.dim() != 4) {
    return std::nullopt;
  }
  const std::int64_t start_ns = base::monotonic_ns();
  ProbeSource source;
  try {
    const LayerInfo* layer = layer_info(label);
    const std::int64_t heads = layer != nullptr ? layer->heads.value_or(0) : 0;
    const std::int64_t merged = scores.dim() == 3 && heads > 0 ? heads : scores.size(-3);
    if (may_be_captured(scores.device())) {
      source.missing = NotSampled::kCapture;
    } else if (!spend(merged, scores.size(-1))) {
      source.missing = NotSampled::kBudget;
    } else {
      const UnseenScope unseen;
      source.chain = chain_scores(scores, heads, sink()->pattern_rows());
      source.missing = NotSampled::kShape;
    }
  } catch (...) {
    sink()->count_hook_error();
    source.missing = NotSampled::kFailed;
  }
  source.sampling_ns = base::monotonic_ns() - start_ns;
  sink()->count_sampling(source.sampling_ns);
  return source;
}

}  // namespace headscope::capture::torch
