"""A process that measures on demand: a request in JSON a line, the answer in nanoseconds a line.

overhead.py starts it once with headscope loaded and twice without, since a loaded headscope keeps its hooks in the
dispatcher for good.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Idle(nn.Module):
    """Looks like an attention module and does nothing, so that a call of it is a module call and its hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 2
        self.q_proj = self.k_proj = self.v_proj = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class IdleModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Idle()


MODEL = IdleModel()


def small_ops() -> dict[str, Callable[[], Any]]:
    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    grad_q, grad_k, grad_v = (torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3))
    ones = torch.ones(1, 2, 8, 16)
    a, b = torch.randn(2, 8, 16), torch.randn(2, 16, 8)
    tiny = torch.ones(4)
    idle = MODEL.attention

    def training() -> None:
        scaled_dot_product_attention(grad_q, grad_k, grad_v).backward(ones)

    def chain() -> None:
        torch.bmm(torch.softmax(torch.bmm(a, b), -1), a)

    return {
        "sdpa": lambda: scaled_dot_product_attention(q, k, v),
        "sdpa_training": training,
        "chain": chain,
        "bmm": lambda: torch.bmm(a, b),
        "add": lambda: torch.add(tiny, tiny),
        "module": lambda: idle(tiny),
    }


def watching(variant: str, model: nn.Module | None) -> contextlib.AbstractContextManager[Any]:
    """What is active around the measured calls."""
    if variant == "off":
        return contextlib.nullcontext()
    if variant == "torch.profiler":
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
    if variant == "FlopCounterMode":
        from torch.utils.flop_counter import FlopCounterMode

        return FlopCounterMode(display=False)
    from headscope import AttentionProfiler

    if variant == "device clock":
        return AttentionProfiler(model, memory="off", device_timing="cupti")
    if variant == "memory off":
        return AttentionProfiler(model, memory="off")
    return AttentionProfiler(model)


def label(variant: str) -> contextlib.AbstractContextManager[Any]:
    """One layer for all calls, as in a model whose layers are known; calls without a name make up to 512 rows."""
    if not variant.startswith(("memory", "device")):
        return contextlib.nullcontext()
    import headscope

    return headscope.layer("layer")


def time_calls(call: Callable[[], Any], calls: int) -> float:
    """Nanoseconds a call, the loop's own included: it cancels in differences. The thread's own time, so that a
    preemption does not count; the calls wait for nothing and start no thread."""
    for _ in range(calls // 10 + 1):
        call()
    begin = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - begin) / calls


def main() -> None:
    torch.set_num_threads(1)
    gc.disable()
    if sys.argv[1] == "headscope":
        import headscope

        headscope.capabilities()  # loads the library, as a first profiler would
    ops = small_ops()
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        op = request["op"]
        gradients = contextlib.nullcontext() if op == "sdpa_training" else torch.no_grad()
        with gradients, label(request["variant"]), watching(request["variant"], MODEL if op == "module" else None):
            nanoseconds = time_calls(ops[op], request["calls"])
        print(nanoseconds, flush=True)


if __name__ == "__main__":
    main()
