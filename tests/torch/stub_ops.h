#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

/// Ops of other packages with their real schemas and a kernel that computes nothing.
namespace headscope::torch_tests {

/// A boxed kernel for any schema: each tensor that it returns is a copy of the query.
inline void return_copies_of_the_query(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  at::Tensor query;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name == "q" || name == "query") {
      query = torch::jit::peek(*stack, i, count).toTensor().clone();
    }
  }
  torch::jit::drop(*stack, count);
  for (const c10::Argument& result : schema.returns()) {
    if (result.type()->kind() == c10::TypeKind::ListType) {
      stack->emplace_back(std::vector<at::Tensor>{query});
    } else {
      stack->emplace_back(query);
    }
  }
}

/// Calls `op` with the named arguments; others get their default, None, 0 or false.
inline void call_by_name(const std::string& op, const std::map<std::string, c10::IValue>& given) {
  const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), "");
  torch::jit::Stack stack;
  for (const c10::Argument& argument : handle.schema().arguments()) {
    const auto found = given.find(argument.name());
    if (found != given.end()) {
      stack.push_back(found->second);
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    } else if (argument.type()->kind() == c10::TypeKind::FloatType) {
      stack.emplace_back(0.0);
    } else if (argument.type()->kind() == c10::TypeKind::BoolType) {
      stack.emplace_back(false);
    } else if (argument.type()->kind() == c10::TypeKind::OptionalType) {
      stack.emplace_back();
    } else if (argument.type()->kind() == c10::TypeKind::StringType) {
      stack.emplace_back("");
    } else {
      stack.emplace_back(std::int64_t{0});
    }
  }
  handle.callBoxed(stack);
}

/// A tensor of 32-bit integers, as lengths are passed.
inline at::Tensor integers(std::initializer_list<std::int32_t> values) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kInt);
  std::copy(values.begin(), values.end(), tensor.data_ptr<std::int32_t>());
  return tensor;
}

}  // namespace headscope::torch_tests
