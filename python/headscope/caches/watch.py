"""Finds the cache objects that a model's calls carry, and shows how full they are."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import weakref
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.utils.hooks import RemovableHandle

from headscope._native import core
from headscope.caches import request_lengths, transformers_caches

# Arguments of a model's forward that hold a cache: in the order of releases.
_ARGUMENTS = ("past_key_values", "cache")

_numbers = itertools.count()


class _Part:
    """One cache with layers of its own, and the gauge that shows it."""

    def __init__(self, cache: Any, gauge: core.KvCacheGauge) -> None:
        self.cache = weakref.ref(cache)
        self.gauge = gauge
        self.figures: list[transformers_caches.Figures] = []
        self.length_shown: int | None = None
        self.length: int | None = None

    def note(self) -> bool:
        """Notes the length of the cache. False where it must be read as a whole to be known."""
        cache = self.cache()
        if cache is not None:
            self.length = transformers_caches.length(cache)
        return self.length is not None and self.length_shown is not None

    def show(self, padding: int | None) -> None:
        cache = self.cache()
        if cache is None:
            return
        figures = transformers_caches.read(cache, request_lengths.of(cache), padding)
        if figures:
            self.gauge.set(figures)
            self.figures = figures
            self.length_shown = self.length = transformers_caches.length(cache)

    def retire(self) -> None:
        """The cache is gone: what it took in since it was last read is added."""
        if self.length is not None and self.length_shown is not None and self.length > self.length_shown:
            self.gauge.set(transformers_caches.advanced(self.figures, self.length - self.length_shown))


class _Seen:
    """A cache object that was seen."""

    #: Reading takes at most this share of the time.
    MOST = 0.003

    def __init__(self, cache: Any, profiler: core.Profiler) -> None:
        number = next(_numbers)
        self.cache = weakref.ref(cache)
        self.mask: Any = None
        self.next_read_ns = 0
        self.parts = [
            _Part(inner, core.KvCacheGauge(f"{type(inner).__name__}[{number}]{part}", profiler.id))
            for part, inner in transformers_caches.contiguous_caches(cache)
        ]

    def after_forward(self) -> None:
        now = time.monotonic_ns()
        # All of them, so no generator.
        if all([part.note() for part in self.parts]) and now < self.next_read_ns:  # noqa: C419
            return
        self.show()
        end = time.monotonic_ns()
        self.next_read_ns = end + round((end - now) / self.MOST)

    def show(self) -> None:
        padding = _padding_of(self.mask)
        for part in self.parts:
            part.show(padding)

    def retire(self) -> None:
        for part in self.parts:
            with contextlib.suppress(Exception):
                part.retire()


class _Hook:
    """After a forward of the model. Pickles as a function that does nothing, as the hooks of layers do."""

    __slots__ = ("watch",)

    def __init__(self, watch: CacheWatch) -> None:
        self.watch = watch

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not is_compiling():
            self.watch.after_forward(kwargs, output)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # nullcontext.__exit__ takes any arguments and returns None.
        return getattr, (contextlib.nullcontext(), "__exit__")


class CacheWatch:
    """Shows the caches of the calls of `model` in `profiler`, from its construction to `remove()`.

    A failure is never raised: a cache that cannot be read is not shown.
    """

    def __init__(self, model: nn.Module, profiler: core.Profiler) -> None:
        self._profiler = profiler
        self._lock = threading.Lock()
        self._seen: dict[int, _Seen] = {}
        self._handles: list[RemovableHandle] = []
        if isinstance(model, torch.jit.ScriptModule) or "transformers" not in sys.modules:
            return
        request_lengths.follow()
        self._handles.append(model.register_forward_hook(_Hook(self), with_kwargs=True))

    def after_forward(self, kwargs: dict[str, Any], output: Any) -> None:
        """A forward of the model has ended."""
        with contextlib.suppress(Exception):
            cache = _cache_of(kwargs, output)
            if cache is None:
                return
            with self._lock:
                seen = self._known(cache)
                seen.mask = kwargs.get("attention_mask")
                seen.after_forward()

    def refresh(self) -> None:
        """Reads the caches that are alive, whoever changed them since the last forward."""
        with self._lock:
            for key, seen in list(self._seen.items()):
                if seen.cache() is None:
                    self._seen.pop(key).retire()
                else:
                    # Another thread may be at work in the cache: then the last figures stay.
                    with contextlib.suppress(Exception):
                        seen.show()

    def remove(self) -> None:
        """Detaches. The figures stay."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _known(self, cache: Any) -> _Seen:
        seen = self._seen.get(id(cache))
        # The address of one that is gone may be another's.
        if seen is None or seen.cache() is not cache:
            for key in [key for key, other in self._seen.items() if other.cache() is None]:
                self._seen.pop(key).retire()
            seen = self._seen[id(cache)] = _Seen(cache, self._profiler)
        return seen


def _cache_of(kwargs: dict[str, Any], output: Any) -> Any:
    for name in _ARGUMENTS:
        for value in (kwargs.get(name), getattr(output, name, None)):
            if value is not None and transformers_caches.is_cache(value):
                return value
    return None


def _padding_of(mask: Any) -> int | None:
    """Pad tokens that a two-dimensional mask of the batch marks; None where it would have to be fetched."""
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.device.type != "cpu":
        return None
    return mask.numel() - int(torch.count_nonzero(mask))
