"""AttentionProfiler: the scope in which attention is profiled."""

from __future__ import annotations

import functools
import inspect
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar, cast

from torch import nn

from headscope._native import Budget, Error, core
from headscope.caches.watch import CacheWatch
from headscope.integrations.torch_profiler import follow_torch_profiler
from headscope.layers import LayerHooks
from headscope.schedule import Schedule, Windows
from headscope.stats import Stats

# torch.profiler may run before the first profiler of this module, and that must be known.
follow_torch_profiler()

_P = ParamSpec("_P")
_R = TypeVar("_R")


class AttentionProfiler:
    """Profiles every attention call between its start and its stop.

    Entering a stopped profiler again *continues* it: what was collected is kept. Call `reset()` to start afresh.

        with AttentionProfiler() as prof:          # any PyTorch code; no change to the model
            model(**batch).loss.backward()
            prof.step()                            # optional: ends a step
        print(prof.get_stats())

    model: gives layers their names (module paths), the model's head counts, and its key/value caches
        (`stats["kv_cache"]`). Optional.
    schedule: which steps are collected: what `torch.profiler.schedule(wait=…, warmup=…, active=…)` returns, or any
        function from a step's number (0 begins at the start) to a ProfilerAction. Each active window starts afresh;
        `get_stats()` shows the open window, else the last one. Steps outside cost nothing: the hooks are idle.
    on_ready: called with this profiler when a window has ended, by the `step()` or the stop that ended it, while
        nothing is collected; without a schedule at each stop. Its exceptions go to the caller of that `step()` or stop.
    per_head: split every figure over the heads (`stats["heads"]`).
    memory: "calls" measures allocations inside each attention op; "scope" also the peak of the whole scope: of what
        the thread that starts the profiler allocates, and the backward passes that it starts (a torch.profiler that
        starts meanwhile takes over, and the figures say so); "off" nothing.
    eager: how hand-written attention (QKᵀ → softmax → PV) is observed: "off", "basic" (products and softmax) or
        "detail" (the elementwise ops between them too: exact materialised bytes and masks).
    device_timing: "cupti" times each call by its kernels on the GPU (a call that launches none has no time), and
        waits for the device in `get_stats()` and at the stop. While torch.profiler runs (from its warmup on), calls are
        timed by what it records, once it has ended. Where CUPTI is not to be had, calls are timed as with "events" or
        "host", and the figures say why. "events" is the time between two CUDA events around each op, "host" the host's
        clock around it; "auto" takes the host's.
    threads: "all" threads of the process, or only the "current" one (that starts the profiler) and the backward
        passes that it starts.
    decode_max_q: longest query that still counts as a decode step.
    mask_count_budget: mask elements that a step may spend on counting admitted pairs exactly; beyond it a mask is
        `opaque` and all its pairs count as admitted.
    patterns: sample the attention weights in each step whose number is a multiple of this: what each head attends
        to, and which heads collapse (`stats["patterns"]`). A sampled call is read after it ran; its thread waits for
        the device. Without step() there is one step, which is sampled until `pattern_budget` is used up.
    tolerance: in the same steps, find for each head which narrower dtype or smaller set of keys keeps the relative
        error of its output within this, such as 0.01 (`stats["tolerance"]`).
    pattern_rows: query rows sampled of each head of a call, at most.
    pattern_budget: scores (a query and a key of a head) that a step may spend on patterns; calls that come later in
        the step are not sampled, and counted.
    keep_calls: how many of the last calls `stats["calls"]` keeps one by one.

    Also a decorator of functions and coroutine functions. Profilers may nest and run side by side (16 at once), and
    all methods may be called from any thread. Wrong use raises headscope.Error; an exception of the profiled code
    passes through unchanged.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        schedule: Schedule | None = None,
        on_ready: Callable[[AttentionProfiler], object] | None = None,
        per_head: bool = True,
        memory: Literal["calls", "scope", "off"] = "calls",
        eager: Literal["basic", "off", "detail"] = "basic",
        device_timing: Literal["auto", "cupti", "events", "host"] = "auto",
        threads: Literal["all", "current"] = "all",
        decode_max_q: int = 1,
        mask_count_budget: int = 1 << 22,
        patterns: int | None = None,
        tolerance: float | None = None,
        pattern_rows: int = 64,
        pattern_budget: int = 1 << 27,
        keep_calls: int = 0,
    ) -> None:
        self._model = _checked_model(model)
        self._core = core.Profiler(
            per_head=per_head,
            memory=memory,
            eager=eager,
            device_timing=device_timing,
            threads=threads,
            decode_max_q=decode_max_q,
            mask_count_budget=mask_count_budget,
            patterns=patterns,
            tolerance=tolerance,
            pattern_rows=pattern_rows,
            pattern_budget=pattern_budget,
            keep_calls=keep_calls,
            start_now=False,
        )
        if on_ready is not None and not callable(on_ready):
            raise Error(f"on_ready must be a function that takes the profiler, not {on_ready!r}")
        self._on_ready = on_ready
        self._lock = threading.RLock()
        self._entered = 0
        self._starts = 0
        self._hooks: LayerHooks | None = None
        self._last_hooks: LayerHooks | None = None  # also once removed
        self._caches: CacheWatch | None = None
        self._windows = None if schedule is None else Windows(schedule, self._core, self._observe)

    @property
    def running(self) -> bool:
        """True between start and stop."""
        return self._core.running

    def start(self) -> None:
        """Starts, or continues after `stop()`. No effect while running. Raises Error when 16 profilers run."""
        with self._lock:
            if self.running:
                return
            try:
                if self._windows is not None:
                    self._windows.start()
                else:
                    self._observe(True)
                    self._core.start()
            except BaseException:
                self._core.stop()
                self._observe(False)
                raise
            self._starts += 1

    def stop(self) -> None:
        """Stops, also out of every `with` that is open, and calls `on_ready`. No effect when stopped."""
        if self._stop() and self._on_ready is not None:
            self._on_ready(self)

    def _stop(self) -> bool:
        """True when there is something for `on_ready`."""
        with self._lock:
            self._entered = 0
            self._name_compiled_layers()
            ready = self.running
            if self._windows is not None:
                ready = self._windows.stop() and ready
            else:
                self._core.stop()
            self._observe(False)
            return ready

    def __enter__(self) -> AttentionProfiler:
        with self._lock:
            # A profiler that start() began outlives the `with`: its own stop() ends it.
            if self._entered > 0 or not self.running:
                self.start()
                self._entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._entered == 0:
                return
            self._entered -= 1
            if self._entered > 0:
                return
            ready = self._stop()
        if ready and self._on_ready is not None:
            try:
                self._on_ready(self)
            except Exception as own:
                if error is None:
                    raise
                # The program's own exception passes through unchanged.
                warnings.warn(f"on_ready failed: {own!r}", RuntimeWarning, stacklevel=2)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the calls inside the `with` out. Pauses nest; on all threads that the profiler sees."""
        with self._lock:
            start = self._starts
            self._core.pause()
        try:
            yield
        finally:
            with self._lock:
                # A stop ends the pauses that it finds; what a later start pauses is not ours.
                if self._starts == start:
                    self._core.resume()

    def step(self) -> None:
        """Ends a step: unnamed calls are numbered from 0 again and the mask budget is renewed.

        With a schedule, also decides what becomes of the next step. Raises Error when stopped.
        """
        if self._windows is None:
            self._core.step()
            return
        with self._lock:
            ready = self._windows.step()
        if ready:
            try:
                if self._on_ready is not None:
                    self._on_ready(self)
            finally:
                with self._lock:
                    self._windows.go_on()

    def reset(self) -> None:
        """Forgets everything collected; a running profiler keeps running, and a schedule goes on where it is."""
        with self._lock:
            if self._windows is not None:
                self._windows.reset()
            else:
                self._core.reset()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Marks a part of the program that is not attention (tokenise, sample, detokenise), so that attention's share
        of the whole is seen in `stats["stages"]`. Stages of one name are summed; names beyond 256 share one row.
        """
        if not isinstance(name, str) or not name:
            raise Error(f"a stage has a name, such as 'tokenize', not {name!r}")
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self._core.add_stage(name, time.monotonic_ns() - start)

    def get_stats(self, *, window: bool = False) -> Stats:
        """A snapshot of what was collected so far; also valid while running, and before the first start.

        window: only what came since the last call with `window=True`, or since the start: the last interval of a
            server that goes on. `get_stats()` shows the whole all the same. Windows belong to one reader. Raises Error
            with a schedule, which has windows of its own.
        """
        with self._lock:
            self._name_compiled_layers()
            if self._caches is not None:
                self._caches.refresh()
            if window:
                if self._windows is not None:
                    raise Error("get_stats(window=True) of a profiler with a schedule: its windows come from on_ready")
                return Stats(self._core.take_window())
            return Stats(self._core.get_stats() if self._windows is None else self._windows.snapshot())

    def assert_budget(self, budget: Budget | None = None, **limits: Any) -> None:
        """The same as `get_stats().assert_budget(...)`: AssertionError that lists the violations, if any."""
        self.get_stats().assert_budget(budget, **limits)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Profiles each call of `function`, which may be a coroutine function."""
        if not callable(function):
            raise Error(f"AttentionProfiler decorates functions, and {function!r} is none")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise Error("a generator runs after the call that makes it: use `with prof:` inside it instead")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def profiled_coroutine(*args: _P.args, **kwargs: _P.kwargs) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return cast(Callable[_P, _R], profiled_coroutine)

        @functools.wraps(function)
        def profiled(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self:
                return function(*args, **kwargs)

        return profiled

    def __repr__(self) -> str:
        return f"<AttentionProfiler, {'running' if self.running else 'stopped'}>"

    def __reduce__(self) -> Any:
        raise Error("an AttentionProfiler cannot be copied or pickled; keep prof.get_stats().to_dict() instead")

    def _observe(self, on: bool) -> None:
        """Attaches the hooks that name layers, or detaches them."""
        if on and self._hooks is None and self._model is not None:
            self._hooks = self._last_hooks = LayerHooks(self._model)
            self._caches = CacheWatch(self._model, self._core)
        elif not on and self._hooks is not None:
            self._name_compiled_layers()
            self._hooks.remove()
            self._hooks = None
            if self._caches is not None:
                self._caches.remove()

    def _name_compiled_layers(self) -> None:
        if self._last_hooks is not None:
            self._core.name_by_order(self._last_hooks.order_of_compiled_code())


def _checked_model(model: Any) -> nn.Module | None:
    if model is None or isinstance(model, nn.Module):
        return model
    inner = getattr(model, "model", None)
    if isinstance(inner, nn.Module):
        raise Error(f"model must be a torch.nn.Module, not {type(model).__name__}: pass its .model")
    if callable(model):
        raise Error(
            f"model must be a torch.nn.Module, not {type(model).__name__}. To decorate a function, call the profiler "
            "first: @AttentionProfiler(). Without a module leave model out and name layers with headscope.layer(...)."
        )
    raise Error(
        f"model must be a torch.nn.Module, not {type(model).__name__}. "
        "Leave it out to profile any code; name layers with headscope.layer(...) where you want names."
    )
