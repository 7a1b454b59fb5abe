#include <array>
#include <cstddef>
#include <string>

#include "bindings.h"
#include "convert.h"
#include "headscope/options.h"

namespace headscope::python {
namespace {

constexpr std::array kMemory{Choice<Memory>{"calls", Memory::kCalls}, Choice<Memory>{"off", Memory::kOff},
                             Choice<Memory>{"scope", Memory::kScope}};
constexpr std::array kEager{Choice<Eager>{"basic", Eager::kBasic}, Choice<Eager>{"off", Eager::kOff},
                            Choice<Eager>{"detail", Eager::kDetail}};
constexpr std::array kDeviceTiming{
    Choice<DeviceTiming>{"auto", DeviceTiming::kAuto}, Choice<DeviceTiming>{"cupti", DeviceTiming::kCupti},
    Choice<DeviceTiming>{"events", DeviceTiming::kEvents}, Choice<DeviceTiming>{"host", DeviceTiming::kHost}};
constexpr std::array kThreads{Choice<Threads>{"all", Threads::kAll}, Choice<Threads>{"current", Threads::kCurrent}};

}  // namespace

Options options_from_python(const py::kwargs& keywords) {
  Options options;
  for (const auto& [key, value] : keywords) {
    const auto name = key.cast<std::string>();
    if (name == "memory") {
      options.memory = to_choice(name, value, kMemory);
    } else if (name == "eager") {
      options.eager = to_choice(name, value, kEager);
    } else if (name == "device_timing") {
      options.device_timing = to_choice(name, value, kDeviceTiming);
    } else if (name == "threads") {
      options.threads = to_choice(name, value, kThreads);
    } else if (name == "per_head") {
      options.per_head = to_bool(name, value);
    } else if (name == "decode_max_q") {
      options.decode_max_q = to_int(name, value);
    } else if (name == "mask_count_budget") {
      options.mask_count_budget = to_int(name, value);
    } else if (name == "patterns") {
      options.patterns = value.is_none() ? 0 : to_int(name, value);
    } else if (name == "tolerance") {
      options.tolerance = value.is_none() ? 0.0 : to_double(name, value);
    } else if (name == "pattern_rows") {
      options.pattern_rows = to_int(name, value);
    } else if (name == "pattern_budget") {
      options.pattern_budget = to_int(name, value);
    } else if (name == "keep_calls") {
      options.keep_calls = static_cast<std::size_t>(to_count(name, value));
    } else if (name == "start_now") {
      options.start_now = to_bool(name, value);
    } else {
      throw_unknown_keyword("AttentionProfiler()", name);
    }
  }
  return options;
}

}  // namespace headscope::python
