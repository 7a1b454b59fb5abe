#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "capture/fused_call.h"
#include "capture/operand.h"
#include "capture/torch/delivery.h"
#include "capture/torch/frame.h"
#include "capture/torch/hooked_op.h"
#include "capture/torch/tensor_reader.h"
#include "capture/torch/thread_state.h"
#include "capture/torch/typed_kernel.h"

namespace headscope::capture::torch {
namespace {

/// Integers of a small tensor in host memory; std::nullopt elsewhere: reading them would wait for the device.
std::optional<std::vector<std::int64_t>> host_integers(const at::Tensor& tensor, int dims = 1) {
  if (!is_readable(tensor) || !tensor.device().is_cpu() || tensor.dim() != dims || !tensor.is_contiguous()) {
    return std::nullopt;
  }
  const auto count = static_cast<std::size_t>(tensor.numel());
  std::vector<std::int64_t> values(count);
  if (tensor.scalar_type() == c10::ScalarType::Int) {
    std::copy_n(tensor.const_data_ptr<std::int32_t>(), count, values.begin());
  } else if (tensor.scalar_type() == c10::ScalarType::Long) {
    std::copy_n(tensor.const_data_ptr<std::int64_t>(), count, values.begin());
  } else {
    return std::nullopt;
  }
  return values;
}

/// Cumulative lengths as lengths.
std::optional<std::vector<std::int64_t>> host_lengths(const at::Tensor* cumulative) {
  if (cumulative == nullptr) {
    return std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> values = host_integers(*cumulative);
  if (!values || values->empty()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i + 1 < values->size(); ++i) {
    (*values)[i] = (*values)[i + 1] - (*values)[i];
  }
  values->pop_back();
  return values;
}

void read_lengths(FusedArguments& fused, const Arguments& arguments) {
  const at::Tensor* cu_q = arguments.tensor(Arg::kCuSeqlensQ);
  const at::Tensor* cu_k = arguments.tensor(Arg::kCuSeqlensK);
  const at::Tensor* used_k = arguments.tensor(Arg::kSequsedK);
  if (cu_q != nullptr && cu_q->numel() == 0) {
    cu_q = nullptr;
  }
  if (cu_q == nullptr && used_k == nullptr) {
    return;
  }
  fused.varlen = true;
  fused.sequences = cu_q != nullptr ? cu_q->numel() - 1 : used_k->numel();
  // With seqused_k the cumulative key lengths may be a dummy of the same shape.
  std::optional<std::vector<std::int64_t>> k = used_k != nullptr ? host_integers(*used_k) : host_lengths(cu_k);
  std::optional<std::vector<std::int64_t>> q;
  if (cu_q != nullptr) {
    q = host_lengths(cu_q);
  } else if (fused.q.dims >= 4) {
    q.emplace(static_cast<std::size_t>(fused.sequences), fused.q.size(-3));
  }
  if (cu_q != nullptr && cu_k == nullptr && used_k == nullptr) {
    k = q;
  }
  if (q && k && q->size() == k->size()) {
    fused.lengths = std::make_shared<const records::Lengths>(records::Lengths{*std::move(q), *std::move(k)});
  }
}

void read_window(FusedArguments& fused, const Arguments& arguments) {
  fused.window.left = arguments.integer(Arg::kWindowLeft).value_or(-1);
  fused.window.right = arguments.integer(Arg::kWindowRight).value_or(-1);
  const c10::IValue* window = arguments.find(Arg::kWindow);
  if (window == nullptr) {
    return;
  }
  if (window->isIntList() && window->toIntVector().size() == 2) {
    fused.window.left = window->toIntVector()[0];
    fused.window.right = window->toIntVector()[1];
  } else if (window->isInt()) {
    fused.window.left = window->toInt() - 1;  // the efficient kernel counts the query's own key
  }
}

/// Places of a page table that are copied; a larger one is mostly empty places.
constexpr std::int64_t kMostTablePlaces = 1 << 16;

/// False for tensors that are not readable.
bool read_arguments(FusedArguments& fused, const Arguments& arguments) {
  if (!arguments.read(Arg::kQuery, fused.q) || !arguments.read(Arg::kKey, fused.k) ||
      !arguments.read(Arg::kValue, fused.v)) {
    return false;
  }
  fused.causal = arguments.boolean(Arg::kCausal);
  fused.mask_type = arguments.integer(Arg::kMaskType).value_or(0);
  fused.has_dropout = arguments.number(Arg::kDropout) > 0.0;
  if (TensorView table; fused.k.dims == 4 && arguments.read(Arg::kBlockTable, table) && table.dims == 2) {
    fused.paged = true;
    fused.paged_width = table.size(1) * fused.k.size(1);
    if (table.size(0) * table.size(1) <= kMostTablePlaces) {
      fused.pages = host_integers(*arguments.tensor(Arg::kBlockTable), 2).value_or(std::vector<std::int64_t>{});
    }
  }
  read_window(fused, arguments);
  read_lengths(fused, arguments);
  return true;
}

/// One observed fused op. Counts the call as failed unless close() was reached.
class FusedCapture {
 public:
  FusedCapture(ThreadState& state, const records::Watch& watch) noexcept
      : state_(state), own_cost_(state), watch_(watch) {}
  FusedCapture(const FusedCapture&) = delete;
  FusedCapture& operator=(const FusedCapture&) = delete;
  ~FusedCapture() {
    if (redispatch_) {
      sink()->count_failed_call();
    }
  }

  void open(const OpEntry& entry, const ArgumentIndex& index, const Arguments& arguments) noexcept {
    try {
      FusedArguments fused;
      if (!read_arguments(fused, arguments)) {
        return;  // fake, meta or nested: no execution of attention
      }
      call_ = make_fused_call(entry, fused);
      if (!call_) {
        sink()->count_hook_error();
        return;
      }
      call_->sessions = watch_.sessions;
      take_mask(arguments);
      if (watch_.sampled && state_.frame == nullptr && call_->direction == Direction::kForward) {
        probe_.emplace().tolerance = watch_.tolerance;
        if (!entry.hidden_cache) {
          probe_->operands.emplace(entry, arguments);
        }
      }
      if (watch_.detail) {
        take_copies(fused, arguments);
      }
      if (call_->direction == Direction::kBackward) {
        take_forward(arguments);
      } else if (index.output_argument != ArgumentIndex::kAbsent) {
        const c10::IValue& output = arguments[static_cast<std::size_t>(index.output_argument)];
        if (output.isTensor() && is_readable(output.toTensor())) {
          output_ = view_of(output.toTensor());
        }
      }
      ExpectedAllocations expected;
      expected.device = call_->device.type;
      redispatch_.emplace(state_, watch_, call_->device, expected);
    } catch (...) {
      sink()->count_hook_error();
    }
  }

  void close(const Results& results) noexcept {
    if (!redispatch_) {
      return;
    }
    redispatch_->stop();
    call_->start_ns = redispatch_->start_ns();
    call_->end_ns = redispatch_->end_ns();
    call_->time_ns = call_->end_ns - call_->start_ns;
    call_->device_ops = redispatch_->device_ops();
    const MemoryMeter::Reading& memory = redispatch_->memory();
    call_->allocated_bytes = memory.allocated_bytes;
    call_->peak_bytes = memory.peak_bytes;
    call_->score_bytes = 0;  // what makes a kernel fused: its scores are no tensors
    SavedStorages saved{};
    if (call_->direction == Direction::kForward) {
      saved = take_output(results);
    }
    const bool has_place = call_->direction == Direction::kForward && state_.frame == nullptr;
    deliver(state_, *std::move(call_), saved, has_place ? place_below_autograd() : ForwardPlace{},
            probe_ ? &*probe_ : nullptr);
    own_cost_.finish(redispatch_->start_ns(), redispatch_->end_ns());
    redispatch_.reset();
  }

 private:
  void take_mask(const Arguments& arguments) {
    const at::Tensor* mask = arguments.tensor(Arg::kMask);
    // Inside a composite op the user's own mask is known; the op's may be a converted copy of it.
    if (mask == nullptr || !is_readable(*mask) || (state_.frame != nullptr && state_.frame->arguments.mask)) {
      return;
    }
    const MaskCounter::Result counted = state_.masks.count(*mask, false, call_->geometry, *sink());
    call_->mask = counted.state;
    call_->mask_count = counted.count;
    call_->mask_bytes = counted.stored_bytes;
  }

  void take_copies(const FusedArguments& fused, const Arguments& arguments) noexcept {
    records::Materialized& made = call_->materialized;
    made.kv_copy_bytes = state_.recogniser.take_kv_copies(fused.k) + state_.recogniser.take_kv_copies(fused.v);
    if (const std::optional<TensorView> mask = arguments.view(Arg::kMask)) {
      made.mask_copy_bytes = state_.recogniser.take_mask_copy(*mask);
    }
    made.traffic_bytes = 2 * (made.kv_copy_bytes + made.mask_copy_bytes);
    made.exact = true;
  }

  /// False when the backward's arguments are not those of the forward that wrote what it reads (a program may
  /// hand any output to a backward op). (Query heads that were packed into the query axis are unpacked in `forward`
  /// already.)
  [[nodiscard]] bool may_be_forward(const ForwardInfo& forward, const Arguments& arguments) const noexcept {
    const records::Geometry& a = forward.geometry;
    const records::Geometry& b = call_->geometry;
    const bool tells_causal = arguments.has(Arg::kCausal) || arguments.has(Arg::kMaskType);
    return a.batch == b.batch && a.heads * a.q_len == b.heads * b.q_len && a.kv_len == b.kv_len &&
           a.head_dim == b.head_dim && a.head_dim_v == b.head_dim_v &&
           (!tells_causal || forward.causal == call_->causal) &&
           (!call_->window.limited() || forward.window == call_->window);
  }

  void take_forward(const Arguments& arguments) noexcept {
    std::optional<ForwardInfo> forward;
    for (const Arg arg : {Arg::kSavedOut, Arg::kSavedLogsumexp}) {
      const std::optional<TensorView> saved = arguments.view(arg);
      if (saved && arg == Arg::kSavedOut) {
        call_->out = operand_of(*saved);
      }
      if (saved && !forward) {
        forward = forward_links().find(saved->storage);
      }
    }
    if (forward && may_be_forward(*forward, arguments)) {
      link_to_forward(*call_, *forward);
    } else {
      call_->layer.order = records::LayerRef::kUnknownOrder;
    }
    if (call_->out.elements == 0) {
      call_->out = output_by_shape();
    }
  }

  SavedStorages take_output(const Results& results) noexcept {
    SavedStorages saved{};
    if (results.first != nullptr && is_readable(*results.first)) {
      saved[0] = WeakStorage(*results.first);
      if (!output_) {
        output_ = view_of(*results.first);
      }
    }
    if (output_) {
      call_->out = operand_of(*output_);
    } else {
      call_->out = output_by_shape();
    }
    if (results.second != nullptr && is_readable(*results.second)) {
      saved[1] = WeakStorage(*results.second);
    }
    return saved;
  }

  [[nodiscard]] records::Operand output_by_shape() const noexcept {
    const records::Geometry& geometry = call_->geometry;
    const std::uint64_t row =
        call_->q.elements / static_cast<std::uint64_t>(std::max<std::int64_t>(geometry.head_dim, 1));
    return {row * static_cast<std::uint64_t>(geometry.head_dim_v), call_->q.element_size};
  }

  ThreadState& state_;
  OwnCost own_cost_;
  records::Watch watch_;
  std::optional<records::AttentionCall> call_;
  std::optional<TensorView> output_;
  std::optional<ProbeSource> probe_;
  std::optional<Redispatch> redispatch_;
};

}  // namespace

void FusedHook::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack) {
  const c10::DispatchKeySet next = keys & kAfterBackendSelect;
  const records::Watch watching = watch();
  ThreadState* const state = observer(watching.sessions != 0);
  if (state == nullptr) {
    op.redispatchBoxed(next, stack);
    return;
  }
  const ArgumentIndex& positions = index(op);
  FusedCapture capture(*state, watching);
  capture.open(entry(), positions, Arguments(positions, *stack));
  op.redispatchBoxed(next, stack);
  capture.close(results_of(positions, *stack));
}

std::optional<c10::KernelFunction> typed_fused_kernel(const OpEntry& entry) {
  if (entry.info.name == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return make_typed_kernel<at::_ops::_scaled_dot_product_flash_attention_for_cpu, FusedCapture>(entry, {});
  }
  if (entry.info.name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {
    return make_typed_kernel<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward, FusedCapture>(entry, {});
  }
  return std::nullopt;
}

}  // namespace headscope::capture::torch
