#include "capture/torch/score_rows.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "capture/torch/memory_reporter.h"
#include "capture/torch/tensor_reader.h"
#include "capture/torch/thread_state.h"
#include "probe/row_choice.h"

namespace headscope::capture::torch {
namespace {

using records::NotSampled;

constexpr int kHeads = 0;
constexpr int kRows = 1;

/// Takes memory reports and does nothing with them.
class DeafReporter final : public MemoryReporter {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t /*bytes*/, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {}
};

constexpr c10::DispatchKeySet kWatchers =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PythonDispatcher, c10::DispatchKey::PreDispatch});

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

at::Tensor index_tensor(const std::vector<std::int64_t>& indices, const at::Tensor& like) {
  return at::tensor(indices, at::TensorOptions().dtype(at::kLong)).to(like.device());
}

/// One sequence of a batch: [heads, queries or keys, dim].
struct Sequence {
  at::Tensor q;
  at::Tensor k;
  at::Tensor mask;
};

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

/// Reads operands sequence by sequence.
class Batch {
 public:
  Batch(const ScoreOperands& operands, const records::AttentionCall& call, NotSampled& problem)
      : lengths_(call.lengths.get()) {
    const bool headless = operands.layout == Layout::kBHSD && operands.q.dim() <= 3;
    q_ = with_batch_and_heads(operands.q, operands.layout, headless);
    k_ = with_batch_and_heads(operands.k, operands.layout, headless);
    if (operands.partly_read) {
      problem = NotSampled::kShape;
    } else if (operands.paged) {
      problem = NotSampled::kPaged;
    } else if (call.lengths_unknown) {
      problem = NotSampled::kLengths;
    } else if (q_.size(3) != k_.size(3) || k_.size(1) == 0 || q_.size(1) % k_.size(1) != 0) {
      problem = NotSampled::kShape;
    } else if (lengths_ != nullptr) {
      q_packed_ = q_.size(0) == 1 && sum(lengths_->q) == q_.size(2);
      k_packed_ = k_.size(0) == 1 && sum(lengths_->k) == k_.size(2);
      const auto sequences = static_cast<std::int64_t>(lengths_->q.size());
      if ((!q_packed_ && q_.size(0) != sequences) || (!k_packed_ && k_.size(0) != sequences) ||
          operands.mask.defined()) {
        problem = NotSampled::kShape;
      }
    } else if (operands.mask.defined()) {
      mask_ = broad_mask(operands.mask, headless, q_.size(2), k_.size(2));
      if (!mask_.defined()) {
        problem = NotSampled::kShape;
      }
    }
    if (q_.size(0) != k_.size(0) && k_.size(0) != 1 && lengths_ == nullptr) {
      problem = NotSampled::kShape;
    }
  }

  [[nodiscard]] std::int64_t size() const {
    return lengths_ != nullptr ? static_cast<std::int64_t>(lengths_->q.size()) : q_.size(0);
  }

  [[nodiscard]] Sequence at(std::int64_t index) const {
    Sequence sequence{tokens(q_, index, q_packed_, lengths_ != nullptr ? &lengths_->q : nullptr),
                      tokens(k_, index, k_packed_, lengths_ != nullptr ? &lengths_->k : nullptr), at::Tensor()};
    if (mask_.defined()) {
      sequence.mask = mask_.select(0, mask_.size(0) == 1 ? 0 : index);
    }
    return sequence;
  }

 private:
  static at::Tensor tokens(const at::Tensor& batch, std::int64_t index, bool packed,
                           const std::vector<std::int64_t>* lengths) {
    if (packed) {
      const std::int64_t begin = std::accumulate(lengths->begin(), lengths->begin() + index, std::int64_t{0});
      return batch.select(0, 0).narrow(1, begin, (*lengths)[static_cast<std::size_t>(index)]);
    }
    const at::Tensor one = batch.select(0, batch.size(0) == 1 ? 0 : index);
    return lengths == nullptr ? one : one.narrow(1, 0, (*lengths)[static_cast<std::size_t>(index)]);
  }

  at::Tensor q_;
  at::Tensor k_;
  at::Tensor mask_;
  const records::Lengths* lengths_;
  bool q_packed_ = false;
  bool k_packed_ = false;
};

at::Tensor in_host_memory(const at::Tensor& tensor) { return tensor.to(at::kCPU).contiguous(); }

}  // namespace

struct UnseenScope::Guards {
  c10::impl::ExcludeDispatchKeyGuard unwatched{kWatchers};
  at::DisableRecordFunctionGuard unrecorded;
  c10::DebugInfoGuard unreported{c10::DebugInfoKind::PROFILER_STATE, std::make_shared<DeafReporter>()};
};

UnseenScope::UnseenScope() : guards_(std::make_unique<Guards>()) { ++thread_state().suppressed; }

UnseenScope::~UnseenScope() { --thread_state().suppressed; }

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
  take(Arg::kMask, mask);
  if (arguments.has(Arg::kScale)) {
    scale = arguments.number(Arg::kScale);
  }
  softcap = arguments.number(Arg::kSoftcap);
  partly_read = arguments.has(Arg::kAlibi) || (q.defined() && q.itemsize() < 2);
}

bool may_be_captured(c10::Device device) {
  if (device.is_cpu()) {
    return false;
  }
  const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
  const auto captured = [&device](const auto& g) {
    if constexpr (requires { g.isStreamCapturing(g.getStream(device)); }) {
      return g.isStreamCapturing(g.getStream(device));
    } else {
      return true;
    }
  };
  return captured(*guard);
}

std::optional<std::vector<ScoreRows>> score_rows(const ScoreOperands& operands, const records::AttentionCall& call,
                                                 std::int64_t most_rows, NotSampled& problem) {
  if (!operands.q.defined() || !operands.k.defined() || operands.q.dim() < 2 || operands.k.dim() < 2) {
    problem = NotSampled::kShape;
    return std::nullopt;
  }
  const Batch batch(operands, call, problem);
  if (problem != NotSampled::kNone) {
    return std::nullopt;
  }
  const records::Geometry& geometry = call.geometry;
  const probe::RowChoice choice =
      probe::choose_rows(most_rows, batch.size(), geometry.heads, geometry.q_len, geometry.kv_len);
  const double scale = operands.scale.value_or(1.0 / std::sqrt(static_cast<double>(operands.q.size(-1))));
  std::vector<ScoreRows> all;
  for (const std::int64_t index : choice.sequences) {
    const Sequence sequence = batch.at(index);
    ScoreRows rows;
    rows.q_len = sequence.q.size(1);
    // Query heads may lie in the query axis (delivery.cpp): then each row there is a head.
    const bool heads_in_rows = sequence.q.size(kHeads) != geometry.heads;
    rows.queries = probe::evenly_spaced(heads_in_rows ? rows.q_len : choice.queries, rows.q_len);
    const at::Tensor chosen = index_tensor(rows.queries, sequence.q);
    const std::int64_t kv_heads = sequence.k.size(kHeads);
    const at::Tensor q = sequence.q.index_select(kRows, chosen).to(at::kFloat).mul(scale);
    const at::Tensor k = sequence.k.to(at::kFloat);
    at::Tensor scores =
        at::matmul(q.reshape({kv_heads, -1, q.size(2)}), k.transpose(1, 2)).reshape({q.size(0), q.size(1), k.size(1)});
    if (operands.softcap > 0) {
      scores = scores.div(operands.softcap).tanh().mul(operands.softcap);
    }
    rows.scores = in_host_memory(scores);
    if (sequence.mask.defined()) {
      const at::Tensor mask = sequence.mask.index_select(kRows, chosen);
      rows.lowest = lowest_of(mask.scalar_type());
      rows.mask = in_host_memory(mask.scalar_type() == at::kBool ? mask : mask.to(at::kFloat));
    }
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
