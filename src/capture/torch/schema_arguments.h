#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "capture/op_table.h"
#include "capture/tensor_view.h"

namespace headscope::capture::torch {

/// Where an op's schema has the arguments that headscope reads. Found by name, since overloads and torch
/// versions shift positions.
struct ArgumentIndex {
  static constexpr std::int8_t kAbsent = -1;
  std::array<std::int8_t, kArgCount> at{};
  std::size_t arguments = 0;
  std::size_t returns = 0;
  /// Index of a mutable argument that receives the output ("out", in-place self), else kAbsent.
  std::int8_t output_argument = kAbsent;
};

ArgumentIndex index_arguments(const OpEntry& entry, const c10::FunctionSchema& schema);

/// The arguments of one call on the interpreter stack. A stack may hold more than them (vmap): they are
/// its last ones. A default value or a None reads as absent.
class Arguments {
 public:
  Arguments(const ArgumentIndex& index, const ::torch::jit::Stack& stack) noexcept
      : Arguments(index, stack.data() + (stack.size() - index.arguments)) {}
  /// `first`: the op's first argument, with the others after it.
  Arguments(const ArgumentIndex& index, const c10::IValue* first) noexcept : index_(index), base_(first) {}

  [[nodiscard]] bool has(Arg arg) const noexcept { return find(arg) != nullptr; }
  /// nullptr when absent, None or no tensor.
  [[nodiscard]] const at::Tensor* tensor(Arg arg) const noexcept;
  [[nodiscard]] std::optional<TensorView> view(Arg arg) const noexcept;
  /// The same into `view`; false, leaving it alone, for what view() has nothing for.
  bool read(Arg arg, TensorView& view) const noexcept;
  [[nodiscard]] bool boolean(Arg arg) const noexcept;
  [[nodiscard]] double number(Arg arg) const noexcept;
  /// std::nullopt also for symbolic integers.
  [[nodiscard]] std::optional<std::int64_t> integer(Arg arg) const noexcept;
  [[nodiscard]] const c10::IValue* find(Arg arg) const noexcept;
  [[nodiscard]] const c10::IValue& operator[](std::size_t position) const noexcept { return base_[position]; }

 private:
  const ArgumentIndex& index_;
  const c10::IValue* base_;
};

}  // namespace headscope::capture::torch
