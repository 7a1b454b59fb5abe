#include "timeline/cupti/kinds.h"

#include <array>

namespace headscope::timeline::cupti {
namespace {

struct Kind {
  std::uint32_t kind;
  const char* without;  ///< what is lost without it; null: everything
};

// API records carry the ops' ids: CUPTI writes one before each of them. Triton launches by the driver API.
constexpr std::array<Kind, 6> kKinds = {{
    {abi::kExternalCorrelation, nullptr},
    {abi::kRuntime, nullptr},
    {abi::kDriver, "kernels of Triton are not linked to their ops"},
    {abi::kMemcpy, "copies are missing"},
    {abi::kMemset, "fills are missing"},
    // The last one, so that no kernel comes without its launch.
    {abi::kConcurrentKernel, nullptr},
}};

}  // namespace

std::string Kinds::enable(const Api& api, std::vector<std::string>& warnings) {
  on_.clear();
  for (const Kind& kind : kKinds) {
    const abi::Result result = api.enable(kind.kind);
    if (result == abi::kSuccess) {
      on_.push_back(kind.kind);
      continue;
    }
    const std::string function = "cuptiActivityEnable(" + std::to_string(kind.kind) + ")";
    std::string failure = describe_failure(api, function, result);
    if (kind.without == nullptr) {
      disable(api);
      return failure;
    }
    warnings.push_back(failure + ": " + kind.without);
  }
  return {};
}

void Kinds::disable(const Api& api) {
  while (!on_.empty()) {
    api.disable(on_.back());
    on_.pop_back();
  }
}

}  // namespace headscope::timeline::cupti
