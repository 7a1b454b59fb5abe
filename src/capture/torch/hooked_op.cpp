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

namespace {

const at::Tensor* tensor_in(const c10::IValue& value) noexcept {
  return value.isTensor() && value.toTensor().defined() ? &value.toTensor() : nullptr;
}

}  // namespace

const at::Tensor* result_of(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept {
  return results_of(index, stack).first;
}

Results results_of(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept {
  Results results;
  if (index.returns == 0 || stack.size() < index.returns) {
    return results;
  }
  const c10::IValue* returned = stack.data() + (stack.size() - index.returns);
  results.first = tensor_in(returned[0]);
  if (index.returns >= 2) {
    results.second = tensor_in(returned[1]);
  }
  return results;
}

}  // namespace headscope::capture::torch
