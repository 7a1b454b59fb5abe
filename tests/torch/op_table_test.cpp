// The table of known ops against the schemas of this torch.

#include "capture/op_table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

namespace headscope::capture {

/// How GoogleTest shows an entry.
void PrintTo(const OpEntry* entry, std::ostream* out) { *out << entry->info.name; }

namespace {

c10::OperatorName operator_name(const std::string& qualified) {
  const std::size_t dot = qualified.find('.');
  return dot == std::string::npos ? c10::OperatorName(qualified, "")
                                  : c10::OperatorName(qualified.substr(0, dot), qualified.substr(dot + 1));
}

bool is_aten(const OpEntry& entry) { return entry.info.name.starts_with("aten::"); }

/// Entries of aten ops that this torch has.
std::vector<const OpEntry*> present_ops() {
  std::vector<const OpEntry*> present;
  for (const OpEntry& entry : known_ops()) {
    if (is_aten(entry) && c10::Dispatcher::singleton().findSchema(operator_name(entry.info.name))) {
      present.push_back(&entry);
    }
  }
  return present;
}

std::vector<Arg> needed(OpRole role) {
  switch (role) {
    case OpRole::kComposite:
      return {Arg::kQuery, Arg::kKey, Arg::kValue, Arg::kMask, Arg::kCausal, Arg::kDropout};
    case OpRole::kFusedForward:
      return {Arg::kQuery, Arg::kKey, Arg::kValue};
    case OpRole::kFusedBackward:
      return {Arg::kQuery, Arg::kKey, Arg::kValue, Arg::kSavedOut, Arg::kSavedLogsumexp};
    case OpRole::kNativeMha:
      return {Arg::kQuery, Arg::kKey, Arg::kValue, Arg::kNumHeads, Arg::kMask};
    case OpRole::kProduct:
      return {Arg::kLeft, Arg::kRight};
    case OpRole::kSoftmax:
      return {Arg::kInput};
    case OpRole::kSoftmaxBackward:
      return {Arg::kGradOut};
    case OpRole::kElementwise:
      return {};
  }
  return {};
}

std::string test_name(const ::testing::TestParamInfo<const OpEntry*>& parameter) {
  std::string name = parameter.param->info.name.substr(6);
  std::replace_if(name.begin(), name.end(), [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
}

class KnownOp : public ::testing::TestWithParam<const OpEntry*> {};

TEST_P(KnownOp, ArgumentsAreFoundByTheirNames) {
  const OpEntry& entry = *GetParam();
  const c10::FunctionSchema& schema = c10::Dispatcher::singleton()
                                          .findSchemaOrThrow(operator_name(entry.info.name).name.c_str(),
                                                             operator_name(entry.info.name).overload_name.c_str())
                                          .schema();
  for (const Arg arg : needed(entry.role)) {
    const std::vector<std::string_view> names = argument_names(entry, arg);
    const bool found = std::any_of(schema.arguments().begin(), schema.arguments().end(), [&](const c10::Argument& has) {
      return std::find(names.begin(), names.end(), has.name()) != names.end();
    });
    EXPECT_TRUE(found) << "argument " << static_cast<int>(arg) << " of " << schema;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, KnownOp, ::testing::ValuesIn(present_ops()), test_name);

TEST(OpTable, OpsThatEveryCpuBuildHasArePresent) {
  const std::vector<const OpEntry*> present = present_ops();
  for (const char* name :
       {"aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward", "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention",
        "aten::_flash_attention_forward", "aten::_efficient_attention_forward", "aten::_native_multi_head_attention",
        "aten::bmm", "aten::_softmax"}) {
    EXPECT_TRUE(std::any_of(present.begin(), present.end(), [&](const OpEntry* entry) {
      return entry->info.name == name;
    })) << name;
  }
}

TEST(OpTable, NamesEachOpOnce) {
  std::vector<std::string> names;
  for (const OpEntry& entry : known_ops()) {
    names.push_back(entry.info.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace headscope::capture
