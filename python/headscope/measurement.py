"""Repeated runs of one piece of work: its time without a profiler, and what a profiler says of it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from headscope._native import Error
from headscope.profiler import AttentionProfiler
from headscope.stats import Stats

#: Runs that `min_time_s` may ask for at most.
_MOST_RUNS = 10_000


@dataclass(frozen=True)
class Plan:
    """How often a piece of work runs: `warmup` runs that count for nothing, then at least `repeats` runs, and more
    until they have taken `min_time_s` together."""

    warmup: int
    repeats: int
    min_time_s: float

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("repeats", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise Error(f"{name} must be an integer of at least {least}, not {value!r}")
        seconds = self.min_time_s
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
            raise Error(f"min_time_s must be a number of seconds, at least 0, not {self.min_time_s!r}")


@dataclass(frozen=True)
class Spread:
    """Median and the 10th and 90th percentile of some durations, in nanoseconds."""

    median: int
    p10: int
    p90: int
    runs: int

    @classmethod
    def of(cls, durations: Sequence[int]) -> Spread:
        """Percentiles between two values are interpolated; of one value all three are that value."""
        if len(durations) == 1:
            return cls(durations[0], durations[0], durations[0], 1)
        tenths = statistics.quantiles(durations, n=10, method="inclusive")
        return cls(round(statistics.median(durations)), round(tenths[0]), round(tenths[-1]), len(durations))


@dataclass(frozen=True)
class Work:
    """What runs. `prepare` is called before each run, outside what is timed, and its result given to `run`."""

    run: Callable[[Any], object]
    device: torch.device
    prepare: Callable[[], Any] = lambda: None
    model: nn.Module | None = None
    grad: bool = False


@dataclass(frozen=True)
class Measurement:
    """What some runs of a piece of work took. `figures` are of the attention in `figure_runs` runs, a step each."""

    latency: Spread
    figures: Stats
    figure_runs: int
    #: Most bytes that one run held beyond what was there before it; None where that cannot be seen.
    run_peak_bytes: int | None


def measure(work: Work, plan: Plan) -> Measurement:
    """Runs the work: for its time, for the figures of its attention, and for its peak of memory.

    The time is the wall time of a run with the device waited for, while nobody profiles. The figures are of as many
    further runs inside an AttentionProfiler, the peak is that of one more.
    """
    with nullcontext() if work.grad else torch.inference_mode():
        for _ in range(plan.warmup):
            _once(work)
        durations: list[int] = []
        while len(durations) < plan.repeats or (sum(durations) < plan.min_time_s * 1e9 and len(durations) < _MOST_RUNS):
            durations.append(_once(work))
        return Measurement(Spread.of(durations), _figures(work, plan.repeats), plan.repeats, _peak(work))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator, of torch or of Python, had no more to give."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error).lower()
    signs = ("defaultcpuallocator", "can't allocate memory", "out of memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


def free_memory(device: torch.device) -> None:
    """Gives back what a failed run left, so that the next one has the same to itself."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def wait_for(device: torch.device) -> None:
    """Returns once the device has done all that it was asked to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type != "cpu":
        torch.accelerator.synchronize(device)


def _once(work: Work) -> int:
    given = work.prepare()
    wait_for(work.device)
    began = time.perf_counter_ns()
    result = work.run(given)
    wait_for(work.device)
    ended = time.perf_counter_ns()
    # The result goes after the clock has stopped: freeing it is no part of the work.
    del result
    return ended - began


def _figures(work: Work, repeats: int) -> Stats:
    timing: Literal["cupti", "host"] = "cupti" if work.device.type == "cuda" else "host"
    profiler = AttentionProfiler(work.model, eager="detail", device_timing=timing, per_head=False)
    with profiler:
        for run in range(repeats + 1):
            with profiler.paused():
                given = work.prepare()
                # The first run under a profiler pays what later ones do not.
                if run == 1:
                    profiler.reset()
            result = work.run(given)
            wait_for(work.device)
            profiler.step()
            del result, given
    return profiler.get_stats()


def _peak(work: Work) -> int | None:
    given = work.prepare()
    with AttentionProfiler(memory="scope", eager="off", per_head=False) as profiler:
        result = work.run(given)
        wait_for(work.device)
    del result
    devices = profiler.get_stats()["memory"]["devices"]
    name = work.device.type if work.device.index is None else str(work.device)
    peaks = [entry["peak_bytes"] for entry in devices or () if entry["device"].split(":")[0] == name.split(":")[0]]
    return max(peaks, default=None)
