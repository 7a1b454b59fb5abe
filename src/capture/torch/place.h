#pragma once

#include <optional>

#include "capture/open_forwards.h"

namespace headscope::capture::torch {

/// True on a thread that runs a node of an autograd graph.
bool inside_backward() noexcept;

/// The sequence number of the newest node of this thread's graphs: inside an op below autograd, the op's own.
std::uint64_t newest_node() noexcept;

/// Of an op below autograd, whose node was made already. Its `first_node` is the newest.
ForwardPlace place_below_autograd() noexcept;
/// Of an op above autograd, whose nodes are still to be made.
ForwardPlace place_above_autograd() noexcept;

/// The forward that `call` runs again (activation checkpointing), if it does: attention of an autograd.Function's
/// backward or of a hook is the program's own. Call inside a backward pass.
std::optional<OpenForwards::Forward> repeated_forward(OpenForwards& forwards, const records::AttentionCall& call);

}  // namespace headscope::capture::torch
