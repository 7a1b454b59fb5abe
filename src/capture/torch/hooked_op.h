#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <optional>

#include "capture/op_table.h"
#include "capture/torch/schema_arguments.h"

namespace headscope::capture::torch {

/// Keys below BackendSelect: where a hook sends its op on.
inline constexpr c10::DispatchKeySet kAfterBackendSelect{c10::DispatchKeySet::FULL_AFTER,
                                                         c10::DispatchKey::BackendSelect};

/// The first two results of an op; nullptr for one that is absent or no tensor.
struct Results {
  const at::Tensor* first = nullptr;
  const at::Tensor* second = nullptr;
};

/// The state of one hooked op. Hooks are boxed kernels; they look first whether anybody watches, and
/// redispatch at once if not. What they do around the redispatch never throws; the redispatch may.
class HookedOp : public c10::OperatorKernel {
 public:
  explicit HookedOp(const OpEntry& entry) : entry_(entry) {}

 protected:
  [[nodiscard]] const OpEntry& entry() const noexcept { return entry_; }
  /// Argument positions in `op`'s schema, looked up once (again after a redefinition with another schema).
  const ArgumentIndex& index(const c10::OperatorHandle& op);

 private:
  const OpEntry& entry_;
  std::atomic<const ArgumentIndex*> index_{nullptr};
};

struct FusedHook final : HookedOp {
  using HookedOp::HookedOp;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);
};

/// scaled_dot_product_attention and native multi-head attention.
struct CompositeHook final : HookedOp {
  /// `redispatch_to`: the key set to run the op with; empty: what is below BackendSelect. A composite op
  /// hooked at an autograd key must go to its backend's key alone: with autograd's own keys the ops inside
  /// would lose their gradients under torch.compile.
  CompositeHook(const OpEntry& entry, c10::DispatchKeySet redispatch_to)
      : HookedOp(entry), redispatch_to_(redispatch_to) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);

 private:
  c10::DispatchKeySet redispatch_to_;
};

struct ProductHook final : HookedOp {
  using HookedOp::HookedOp;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);
};

struct SoftmaxHook final : HookedOp {
  using HookedOp::HookedOp;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);
};

struct SoftmaxBackwardHook final : HookedOp {
  using HookedOp::HookedOp;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);
};

struct ElementwiseHook final : HookedOp {
  using HookedOp::HookedOp;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, ::torch::jit::Stack* stack);
};

/// The op's first return; nullptr when that is no tensor.
const at::Tensor* result_of(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept;
Results results_of(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept;

/// Kernels without boxing for ops whose signature this build knows; std::nullopt for others, which take the hooks
/// above. `redispatch_to`: as of CompositeHook.
std::optional<c10::KernelFunction> typed_fused_kernel(const OpEntry& entry);
std::optional<c10::KernelFunction> typed_composite_kernel(const OpEntry& entry, c10::DispatchKeySet redispatch_to);

}  // namespace headscope::capture::torch
