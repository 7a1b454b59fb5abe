"""Beside torch.profiler, which wants CUPTI and a thread's place for memory reports too, and comes first."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, cast

import torch.autograd.profiler

from headscope._native import core

#: What torch's profiler calls the events of a device, and what core.torch_profiler_ended does.
_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_LAUNCHES = ("cuda_runtime", "cuda_driver")

_autograd: Any = torch.autograd
_CUDA = _autograd.DeviceType.CUDA


def follow_torch_profiler() -> None:
    """From then on headscope steps aside while a profiler of torch runs, and times its calls by what that recorded.

    Wraps the functions by which torch.profiler and torch.autograd.profiler start and end. Idempotent.
    """
    module: Any = torch.autograd.profiler
    for name, wrapper in (
        ("_prepare_profiler", _Starting),
        ("_enable_profiler", _Starting),
        ("_disable_profiler", _Ending),
    ):
        function = getattr(module, name)
        if not isinstance(function, _Wrapper):
            setattr(module, name, wrapper(function))
    core.follow_torch_profiler()


class _Wrapper:
    def __init__(self, function: Any) -> None:
        self._function = function
        functools.update_wrapper(cast(Any, self), function)


class _Starting(_Wrapper):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        core.torch_profiler_starts()
        return self._function(*args, **kwargs)


class _Ending(_Wrapper):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = None
        try:
            results = self._function(*args, **kwargs)
            return results
        finally:
            if core.torch_profiler_is_awaited():
                core.torch_profiler_ended(list(_device_events(results)))


def _device_events(results: Any) -> Iterator[tuple[str, str, int, int, int, int, int, int]]:
    """(kind, name, correlation, thread, device, stream, start in ns since 1970, end) of what devices did."""
    events = getattr(results, "events", None)  # emit_nvtx and its like have no results
    for event in [] if events is None else events():
        if event.device_type() == _CUDA:
            kind = _KINDS.get(event.activity_type())
            stream = event.device_resource_id()
        else:
            kind = "launch" if event.activity_type() in _LAUNCHES else None
            stream = 0
        if kind is None:
            continue
        yield (
            kind,
            event.name(),
            event.correlation_id() & 0xFFFFFFFF,
            event.start_thread_id(),
            event.device_index(),
            stream & 0xFFFFFFFF,
            event.start_ns(),
            event.end_ns(),
        )
