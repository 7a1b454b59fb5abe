#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "capture/op_table.h"
#include "capture/torch/hooked_op.h"
#include "capture/torch/schema_arguments.h"
#include "capture/torch/thread_state.h"

namespace headscope::capture::torch {

template <std::size_t kIndex, class... Types>
const at::Tensor* result_of(const std::tuple<Types...>& results) noexcept {
  if constexpr (kIndex < sizeof...(Types)) {
    if constexpr (std::is_same_v<std::tuple_element_t<kIndex, std::tuple<Types...>>, at::Tensor>) {
      return &std::get<kIndex>(results);
    }
  }
  return nullptr;
}

inline Results results_of(const at::Tensor& result) noexcept { return {&result, nullptr}; }

template <class... Types>
Results results_of(const std::tuple<Types...>& results) noexcept {
  return {result_of<0>(results), result_of<1>(results)};
}

/// A hook on an op whose C++ signature is known when headscope is built (`Op` of ATen/ops). The dispatcher calls it
/// without boxing the arguments, which for attention's eight costs more than all else that an idle hook does; while
/// somebody watches they are boxed for `Capture` alone.
template <class Op, class Capture, class Schema = typename Op::schema>
class TypedKernel;

template <class Op, class Capture, class Result, class... Args>
class TypedKernel<Op, Capture, Result(Args...)> final : public c10::OperatorKernel {
 public:
  /// `redispatch_to`: as of CompositeHook.
  TypedKernel(const OpEntry& entry, c10::DispatchKeySet redispatch_to)
      : entry_(entry),
        redispatch_to_(redispatch_to),
        index_(index_arguments(entry,
                               c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name).schema())) {}

  // The parameters are those of the op, whose references pass through and whose values are small.
  Result operator()(c10::DispatchKeySet keys, Args... args) {
    const c10::DispatchKeySet next = redispatch_to_.empty() ? keys & kAfterBackendSelect : redispatch_to_;
    const records::Watch watching = watch();
    ThreadState* const state = observer(watching.sessions != 0);
    if (state == nullptr) {
      return Op::redispatch(next, args...);
    }
    Capture capture(*state, watching);
    {
      const std::array<c10::IValue, sizeof...(Args)> values{c10::IValue(args)...};
      capture.open(entry_, index_, Arguments(index_, values.data()));
    }
    Result result = Op::redispatch(next, args...);
    capture.close(results_of(result));
    return result;
  }

 private:
  const OpEntry& entry_;
  c10::DispatchKeySet redispatch_to_;
  ArgumentIndex index_;
};

template <class Op, class Capture>
c10::KernelFunction make_typed_kernel(const OpEntry& entry, c10::DispatchKeySet redispatch_to) {
  return c10::KernelFunction::makeFromUnboxedFunctor<false, TypedKernel<Op, Capture>>(
      std::make_unique<TypedKernel<Op, Capture>>(entry, redispatch_to));
}

}  // namespace headscope::capture::torch
