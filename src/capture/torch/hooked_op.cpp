#include "capture/torch/hooked_op.h"

namespace headscope::capture::torch {

const ArgumentIndex& HookedOp::index(const c10::OperatorHandle& op) {
  const ArgumentIndex* known = index_.load(std::memory_order_acquire);
  if (known == nullptr || known->arguments != op.schema().arguments().size()) {
    // An older index is leaked: another thread may be reading it. Redefinitions are rare.
    known = new ArgumentIndex(index_arguments(entry_, op.schema()));
    index_.store(known, std::memory_order_release);
  }
  return *known;
}

const at::Tensor* result_of(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept {
  if (index.returns == 0 || stack.size() < index.returns) {
    return nullptr;
  }
  const c10::IValue& result = stack[stack.size() - index.returns];
  return result.isTensor() && result.toTensor().defined() ? &result.toTensor() : nullptr;
}

}  // namespace headscope::capture::torch
