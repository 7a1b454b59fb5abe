"""Beside torch.profiler, which wants CUPTI and a thread's place for memory reports too, and comes first."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, cast

import torch.autograd.profiler

from headscope._native import core
from headscope.integrations.trace_track import add_track

#: What torch's profiler calls the events of a device, and what core.torch_profiler_ended does.
_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_LAUNCHES = ("cuda_runtime", "cuda_driver")

#: The calls of each recording of torch.profiler that still exists.
_calls: weakref.WeakKeyDictionary[Any, list[dict[str, Any]]] = weakref.WeakKeyDictionary()

_autograd: Any = torch.autograd
_CUDA = _autograd.DeviceType.CUDA


def follow_torch_profiler() -> None:
    """From then on headscope steps aside while a profiler of torch runs, and times its calls by what that recorded;
    what it exports has a track of our calls.

    Wraps the functions by which torch.profiler and torch.autograd.profiler start, end and export. Idempotent.
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
    if not isinstance(module.profile.export_chrome_trace, _Export):
        module.profile.export_chrome_trace = _Export(module.profile.export_chrome_trace)
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
            try:
                _take_results(results)
            except Exception as error:  # nothing of ours may fail the program's profiler
                warnings.warn(
                    f"headscope could not use torch.profiler's results: {error!r}", RuntimeWarning, stacklevel=3
                )


class _Export(_Wrapper):
    """profile.export_chrome_trace, with our track behind what torch wrote."""

    def __get__(self, profile: Any, owner: type) -> Any:
        return self if profile is None else functools.partial(self, profile)

    def __call__(self, profile: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        exported = self._function(profile, path, *args, **kwargs)
        results = getattr(profile, "kineto_results", None)
        calls = None if results is None else _calls.get(results)
        if calls:
            try:
                add_track(path, calls)
            except Exception as error:
                warnings.warn(f"headscope could not add its track to {path}: {error!r}", RuntimeWarning, stacklevel=3)
        return exported


def _take_results(results: Any) -> None:
    events = []
    try:
        if core.torch_profiler_is_awaited():
            events = list(_device_events(results))
    finally:
        calls = core.torch_profiler_ended(events)  # in any case: CUPTI is to come back
        if calls and results is not None:
            _calls[results] = calls


def _kind_of(event: Any) -> str | None:
    """What core.torch_profiler_ended calls it; None for what is no work of a device."""
    on_device = event.device_type() == _CUDA
    if hasattr(event, "activity_type"):
        activity = event.activity_type()
        return _KINDS.get(activity) if on_device else ("launch" if activity in _LAUNCHES else None)
    # torch before that has names only.
    name = event.name()
    if not on_device:
        return (
            "launch" if (name.startswith(("cuda", "cu")) and "Launch" in name) or name.startswith("cudaMem") else None
        )
    if getattr(event, "is_user_annotation", bool)():
        return None
    return "memcpy" if name.startswith("Memcpy") else "memset" if name.startswith("Memset") else "kernel"


def _device_events(results: Any) -> Iterator[tuple[str, str, int, int, int, int, int, int]]:
    """(kind, name, correlation, thread, device, stream, start in ns since 1970, end) of what devices did."""
    events = getattr(results, "events", None)  # emit_nvtx and its like have no results
    for event in [] if events is None else events():
        kind = _kind_of(event)
        if kind is None:
            continue
        yield (
            kind,
            event.name(),
            event.correlation_id() & 0xFFFFFFFF,
            event.start_thread_id(),
            event.device_index(),
            0 if kind == "launch" else event.device_resource_id() & 0xFFFFFFFF,
            event.start_ns(),
            event.end_ns() if hasattr(event, "end_ns") else event.start_ns() + event.duration_ns(),
        )
