#include "capture/torch/hooks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/version.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "capture/op_table.h"
#include "capture/torch/delivery.h"
#include "capture/torch/hooked_op.h"
#include "capture/torch/thread_state.h"
#include "headscope/error.h"

namespace headscope::capture::torch {
namespace {

constexpr const char* kRegistrar = "headscope dispatcher hook";

struct Installation {
  std::mutex mutex;
  bool known_ops = false;
  bool detail = false;
  std::string refusal;
  /// Ops of register_attention_op; a deque, because hooks refer to their entries.
  std::deque<std::pair<AttentionOpSpec, OpEntry>> registered;
  std::map<std::string, std::string> refused;
};

/// Leaked, like the hooks themselves.
Installation& installation() {
  static auto* const instance = new Installation;
  return *instance;
}

c10::OperatorName operator_name(const std::string& qualified) {
  const std::size_t overload = qualified.find('.', qualified.find("::") + 2);
  if (overload == std::string::npos) {
    return {qualified, ""};
  }
  return {qualified.substr(0, overload), qualified.substr(overload + 1)};
}

void add_kernel(const OpEntry& entry, c10::DispatchKey key, c10::KernelFunction kernel) {
  // The handle would take the kernel out again when it is destroyed.
  static_cast<void>(new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      operator_name(entry.info.name), key, std::move(kernel), std::nullopt, nullptr, kRegistrar)));
}

template <class Hook, class... Args>
c10::KernelFunction boxed_kernel(const Args&... args) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Hook>(args...));
}

/// `typed` where this build has it, else a boxed kernel.
template <class Hook, class... Args>
c10::KernelFunction typed_or_boxed(std::optional<c10::KernelFunction> typed, const Args&... args) {
  return typed ? *std::move(typed) : boxed_kernel<Hook>(args...);
}

c10::KernelFunction composite_kernel(const OpEntry& entry, c10::DispatchKeySet redispatch_to) {
  return typed_or_boxed<CompositeHook>(typed_composite_kernel(entry, redispatch_to), entry, redispatch_to);
}

void add_composite_kernels(const OpEntry& entry) {
  using Key = c10::DispatchKey;
  add_kernel(entry, Key::BackendSelect, composite_kernel(entry, {}));
  for (const auto& [autograd, backend] :
       {std::pair{Key::AutogradCPU, Key::CPU}, std::pair{Key::AutogradCUDA, Key::CUDA},
        std::pair{Key::AutogradXPU, Key::XPU}}) {
    add_kernel(entry, autograd, composite_kernel(entry, c10::DispatchKeySet(backend)));
  }
}

void add_hook(const OpEntry& entry) {
  constexpr auto kKey = c10::DispatchKey::BackendSelect;
  switch (entry.role) {
    case OpRole::kComposite:
      return add_composite_kernels(entry);
    case OpRole::kNativeMha:
      return add_kernel(entry, kKey, boxed_kernel<CompositeHook>(entry, c10::DispatchKeySet()));
    case OpRole::kFusedForward:
    case OpRole::kFusedBackward:
      return add_kernel(entry, kKey, typed_or_boxed<FusedHook>(typed_fused_kernel(entry), entry));
    case OpRole::kProduct:
      return add_kernel(entry, kKey, boxed_kernel<ProductHook>(entry));
    case OpRole::kSoftmax:
      return add_kernel(entry, kKey, boxed_kernel<SoftmaxHook>(entry));
    case OpRole::kSoftmaxBackward:
      return add_kernel(entry, kKey, boxed_kernel<SoftmaxBackwardHook>(entry));
    case OpRole::kElementwise:
      return add_kernel(entry, kKey, boxed_kernel<ElementwiseHook>(entry));
  }
}

/// Why `entry`'s op cannot be hooked; empty when it can.
std::string refusal_of(const OpEntry& entry) {
  const auto op = c10::Dispatcher::singleton().findOp(operator_name(entry.info.name));
  if (!op) {
    return {};
  }
  if (op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) {
    return "it has a BackendSelect kernel of its own, which a hook would replace";
  }
  if (entry.role != OpRole::kComposite && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return "it is composite (CompositeImplicitAutograd), so autograd runs its parts without it; register the op that "
           "it calls, or give it a kernel for a backend";
  }
  return {};
}

/// Hooks the known ops with `wanted` roles.
void add_known(Installation& all, bool elementwise) {
  for (const OpEntry& entry : known_ops()) {
    if ((entry.role == OpRole::kElementwise) != elementwise) {
      continue;
    }
    const bool aten = entry.info.name.starts_with("aten::");
    if (aten && !c10::Dispatcher::singleton().findSchema(operator_name(entry.info.name))) {
      continue;  // not in this version of torch
    }
    if (std::string refusal = refusal_of(entry); !refusal.empty()) {
      all.refused.emplace(entry.info.name, std::move(refusal));
      continue;
    }
    add_hook(entry);
  }
}

/// Hooks the table once. Called when the library is loaded, before other threads run ops as a rule.
void install_known_ops() {
  Installation& all = installation();
  const std::lock_guard lock(all.mutex);
  if (std::exchange(all.known_ops, true)) {
    return;
  }
  const auto probe = c10::Dispatcher::singleton().findOp(operator_name("aten::scaled_dot_product_attention"));
  if (probe && probe->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect) &&
      probe->dumpState().find(kRegistrar) != std::string::npos) {
    all.refusal =
        "another copy of headscope is loaded in this process; use that one (is headscope both linked into the "
        "program and imported in Python?)";
    return;
  }
  add_known(all, false);
}

struct InstallAtLoad {
  InstallAtLoad() noexcept {
    try {
      install_known_ops();
    } catch (const std::exception& error) {
      installation().refusal = std::string("the dispatcher refused headscope's hooks: ") + error.what();
    }
  }
};
const InstallAtLoad g_install_at_load;

void check_names(const AttentionOpSpec& spec, const OpEntry& entry, const c10::FunctionSchema& schema) {
  for (std::size_t arg = 0; arg < kArgCount; ++arg) {
    const std::string& name = entry.names[arg];
    if (name.empty()) {
      continue;
    }
    bool found = false;
    std::string names;
    for (const c10::Argument& argument : schema.arguments()) {
      found = found || argument.name() == name;
      names += (names.empty() ? "" : ", ") + argument.name();
    }
    if (!found) {
      throw Error("register_attention_op: '" + spec.op + "' has no argument '" + name + "'; its arguments are " +
                  names);
    }
  }
}

}  // namespace

void install_hooks(records::CallSink& sink) {
  install_known_ops();
  Installation& all = installation();
  const std::lock_guard lock(all.mutex);
  if (!all.refusal.empty()) {
    throw Error(all.refusal);
  }
  set_sink(sink);
}

void observe_ops(records::CallObserver& observer) noexcept { set_observer(observer); }

void enable_detail_hooks() {
  Installation& all = installation();
  const std::lock_guard lock(all.mutex);
  if (!std::exchange(all.detail, true)) {
    add_known(all, true);
  }
}

void install_registered_hook(const AttentionOpSpec& spec) {
  OpEntry entry = entry_of(spec);
  Installation& all = installation();
  const std::lock_guard lock(all.mutex);
  for (const auto& [registered, unused] : all.registered) {
    if (registered == spec) {
      return;
    }
    if (registered.op == spec.op) {
      throw Error("register_attention_op: '" + spec.op + "' is registered already with other arguments");
    }
  }
  for (const OpEntry& known : known_ops()) {
    if (known.info.name == spec.op) {
      throw Error("register_attention_op: headscope knows '" + spec.op + "' already, as variant '" +
                  known.info.variant + "'; remove the registration");
    }
  }
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name(spec.op));
  if (op) {
    check_names(spec, entry, op->schema());
    if (const std::string refusal = refusal_of(entry); !refusal.empty()) {
      throw Error("register_attention_op: '" + spec.op + "' cannot be hooked: " + refusal);
    }
  }
  all.registered.emplace_back(spec, std::move(entry));
  add_hook(all.registered.back().second);
}

void flush_this_thread() noexcept {
  const records::Watch watching = watch();
  if (watching.sessions == 0) {
    return;
  }
  ThreadState& state = thread_state();
  if (std::optional<EagerRecogniser::Finished> finished = state.recogniser.flush()) {
    deliver_chain(state, *std::move(finished), watching.sessions);
  }
  const std::uint64_t unfinished = state.recogniser.unfinished();
  sink()->count_unfinished_chains(unfinished - state.unfinished_reported);
  state.unfinished_reported = unfinished;
}

std::vector<NotObservable> not_observable() {
  std::vector<NotObservable> result;
  Installation& all = installation();
  const std::lock_guard lock(all.mutex);
  for (const auto& [name, reason] : all.refused) {
    result.push_back({name, reason});
  }
  for (const auto& [spec, entry] : all.registered) {
    const auto op = c10::Dispatcher::singleton().findSchema(operator_name(spec.op));
    if (!op) {
      result.push_back({spec.op, "registered, but no such op is defined yet"});
    } else if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      result.push_back({spec.op, "it is composite (CompositeImplicitAutograd): seen in inference mode only"});
    }
  }
  return result;
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace headscope::capture::torch

namespace headscope {

void register_attention_op(const AttentionOpSpec& spec) { capture::torch::install_registered_hook(spec); }

}  // namespace headscope
