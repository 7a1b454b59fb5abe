#include "capture/torch/schema_arguments.h"

#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {

ArgumentIndex index_arguments(const OpEntry& entry, const c10::FunctionSchema& schema) {
  ArgumentIndex index;
  index.at.fill(ArgumentIndex::kAbsent);
  const auto& arguments = schema.arguments();
  index.arguments = arguments.size();
  index.returns = schema.returns().size();
  for (std::size_t arg = 0; arg < kArgCount; ++arg) {
    for (const std::string_view name : argument_names(entry, static_cast<Arg>(arg))) {
      for (std::size_t i = 0; i < arguments.size() && index.at[arg] == ArgumentIndex::kAbsent; ++i) {
        if (arguments[i].name() == name) {
          index.at[arg] = static_cast<std::int8_t>(i);
        }
      }
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      index.output_argument = static_cast<std::int8_t>(i);
      break;
    }
  }
  return index;
}

const c10::IValue* Arguments::find(Arg arg) const noexcept {
  const std::int8_t at = index_.at[static_cast<std::size_t>(arg)];
  if (at == ArgumentIndex::kAbsent || base_[at].isNone()) {
    return nullptr;
  }
  return base_ + at;
}

const at::Tensor* Arguments::tensor(Arg arg) const noexcept {
  const c10::IValue* value = find(arg);
  return value != nullptr && value->isTensor() && value->toTensor().defined() ? &value->toTensor() : nullptr;
}

std::optional<TensorView> Arguments::view(Arg arg) const noexcept {
  std::optional<TensorView> view;
  if (const at::Tensor* value = tensor(arg); value != nullptr && is_readable(*value)) {
    view = view_of(*value);
  }
  return view;
}

bool Arguments::read(Arg arg, TensorView& view) const noexcept {
  const at::Tensor* value = tensor(arg);
  if (value == nullptr || !is_readable(*value)) {
    return false;
  }
  read_view(*value, view);
  return true;
}

bool Arguments::boolean(Arg arg) const noexcept {
  const c10::IValue* value = find(arg);
  return value != nullptr && ((value->isBool() && value->toBool()) || (value->isInt() && value->toInt() != 0));
}

double Arguments::number(Arg arg) const noexcept {
  const c10::IValue* value = find(arg);
  return value != nullptr && value->isDouble() ? value->toDouble() : 0.0;
}

std::optional<std::int64_t> Arguments::integer(Arg arg) const noexcept {
  const c10::IValue* value = find(arg);
  if (value == nullptr || !value->isInt()) {
    return std::nullopt;
  }
  return value->toInt();
}

}  // namespace headscope::capture::torch
