#include "timeline/cupti/arbiter.h"

#include <array>

namespace headscope::timeline::cupti {
namespace {

void ignore(void*, std::uint32_t, std::uint32_t, const void*) {}

}  // namespace

Decision decide_before_probe(const Situation& situation) {
  if (situation.torch_profiler_running) {
    return {Claim::kRefuse, Reason::kTorchProfiler, "torch.profiler is running, and CUPTI serves one client at a time",
            ""};
  }
  return {situation.graphs ? Claim::kKeep : Claim::kRelease, Reason::kNone, "", ""};
}

Decision decide_after_probe(const Situation& situation, abi::Result result, std::string_view holder) {
  if (result == abi::kSuccess) {
    return decide_before_probe(situation);
  }
  // NOT_COMPATIBLE: a client of the interface that admits several subscribers is there, and the two do not mix.
  if (result == abi::kMultipleSubscribers || result == abi::kNotCompatible) {
    if (situation.torch_profiler_used && result == abi::kMultipleSubscribers) {
      return {
          Claim::kWithout, Reason::kNone, "",
          situation.graphs ? "torch.profiler holds CUPTI's subscriber: ops of captured CUDA graphs are not known" : ""};
    }
    std::string text = "CUPTI is in use by ";
    text += holder.empty() ? std::string("another tool (a profiler or debugger)") : std::string(holder);
    return {Claim::kRefuse, Reason::kBusy, text, ""};
  }
  return {Claim::kRefuse, Reason::kCallFailed, "", ""};
}

std::string holder_name(const Api& api) {
  if (api.subscribe_v2 == nullptr) {
    return {};
  }
  std::array<char, abi::kHolderNameSize> name{};
  abi::SubscriberParams params;
  params.name = "headscope";
  params.holder = name.data();
  params.holder_size = name.size();
  void* subscriber = nullptr;
  if (api.subscribe_v2(&subscriber, &ignore, nullptr, &params) == abi::kSuccess) {
    api.unsubscribe(subscriber);  // released in between
    return {};
  }
  name.back() = '\0';
  return name.data();
}

}  // namespace headscope::timeline::cupti
