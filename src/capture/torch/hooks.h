#pragma once

#include <string>
#include <vector>

#include "headscope/annotate.h"
#include "headscope/stats.h"
#include "records/call_observer.h"
#include "records/call_sink.h"

/// What the rest of headscope sees of the dispatcher hooks; no torch header.
namespace headscope::capture::torch {

/// Puts hooks on every known op, once, and sends calls to `sink`. The hooks stay for the life of the
/// process: taking kernels out of the dispatcher while other threads call ops makes those calls fail.
/// Throws Error when another copy of headscope in the process has them.
void install_hooks(records::CallSink& sink);

/// Tells `observer`, in place of the one before, of hooked ops while the sink's Watch::device is set; call it before
/// that. It may be told of the end of ops that the other one opened.
void observe_ops(records::CallObserver& observer) noexcept;

/// Adds the hooks of Eager::kDetail, once. Elementwise ops are hooked only then, because a hook costs
/// an idle op about 0.1 µs.
void enable_detail_hooks();

/// Adds a hook for `spec`; see register_attention_op.
void install_registered_hook(const AttentionOpSpec& spec);

/// Delivers the eager backward that the calling thread may still have open.
void flush_this_thread() noexcept;

/// Ops and kinds of attention that the hooks do not see, with reasons.
std::vector<NotObservable> not_observable();

/// "2.13.0+cpu"
std::string torch_version();

}  // namespace headscope::capture::torch
