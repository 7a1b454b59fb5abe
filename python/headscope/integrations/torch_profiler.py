"""Beside torch.profiler: torch has one place per thread for memory reports, and its profiler must find it free."""

from __future__ import annotations

import functools
from typing import Any

import torch.autograd.profiler as autograd_profiler

from headscope._native import core


def make_way_for_torch_profiler() -> None:
    """From then on a profiler of torch that starts takes the place from `memory="scope"`, which says so in its figures.

    Wraps the one function by which torch.profiler, torch.autograd.profiler and emit_nvtx start. Idempotent.
    """
    enable = autograd_profiler._enable_profiler
    if not isinstance(enable, _EnableProfiler):
        autograd_profiler._enable_profiler = _EnableProfiler(enable)


class _EnableProfiler:
    def __init__(self, enable: Any) -> None:
        self._enable = enable
        functools.update_wrapper(self, enable)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        core.leave_memory_reports()
        return self._enable(*args, **kwargs)
