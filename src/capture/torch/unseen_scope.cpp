#include "capture/torch/unseen_scope.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstddef>
#include <cstdint>

#include "capture/torch/memory_reporter.h"
#include "capture/torch/thread_state.h"

namespace headscope::capture::torch {
namespace {

/// Takes memory reports and does nothing with them.
class DeafReporter final : public MemoryReporter {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t /*bytes*/, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {}
};

constexpr c10::DispatchKeySet kWatchers =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PythonDispatcher, c10::DispatchKey::PreDispatch});

}  // namespace

struct UnseenScope::Guards {
  c10::impl::ExcludeDispatchKeyGuard unwatched{kWatchers};
  at::DisableRecordFunctionGuard unrecorded;
  c10::DebugInfoGuard unreported{c10::DebugInfoKind::PROFILER_STATE, std::make_shared<DeafReporter>()};
};

UnseenScope::UnseenScope() : guards_(std::make_unique<Guards>()) { ++thread_state().suppressed; }

UnseenScope::~UnseenScope() { --thread_state().suppressed; }

bool may_be_captured(c10::Device device) {
  if (device.is_cpu()) {
    return false;
  }
  const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
  const auto captured = [&device](const auto& g) {
    if constexpr (requires { g.isStreamCapturing(g.getStream(device)); }) {
      return g.isStreamCapturing(g.getStream(device));
    } else {
      return true;
    }
  };
  return captured(*guard);
}

}  // namespace headscope::capture::torch
