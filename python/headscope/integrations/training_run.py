"""What the callbacks of training frameworks share: one profiled run of training."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

from headscope._native import Error
from headscope.profiler import AttentionProfiler
from headscope.stats import Stats

_log = logging.getLogger("headscope")


class TrainingRun:
    """Profiles training from `begin` to `end`. A failure of its own reaches no caller: `end` logs it as a warning.

    profiler: the caller's; None makes one of `options` for each run, with the model that `begin` is given. One that
        runs already is stepped, and neither started nor stopped.
    output: where the report is written at the end, as JSON.

    Raises Error for wrong options at once, not when training has begun.
    """

    def __init__(
        self,
        profiler: AttentionProfiler | None,
        options: Mapping[str, Any],
        output: str | os.PathLike[str] | None,
    ) -> None:
        if profiler is None:
            AttentionProfiler(**options)
        elif not isinstance(profiler, AttentionProfiler):
            raise Error(f"profiler must be an AttentionProfiler, not {profiler!r}; options are given by name")
        elif options:
            raise Error(f"give {', '.join(options)} to the AttentionProfiler that you pass, or leave profiler out")
        if output is not None and not isinstance(output, (str, os.PathLike)):
            raise Error(f"output must be the path of a file, not {output!r}")
        self._given = profiler
        self._options = dict(options)
        self._output = output
        self._profiler = profiler
        self._owns = False
        self._evaluation = contextlib.ExitStack()
        self._failure: Exception | None = None

    @property
    def stats(self) -> Stats | None:
        """The figures so far, or of the last run; None before the first."""
        return None if self._profiler is None else self._profiler.get_stats()

    def begin(self, model: nn.Module | None) -> None:
        with self._guard():
            # A run that an exception ended had no end.
            self._stop()
            self._failure = None
            if self._given is None:
                self._profiler = AttentionProfiler(model, **self._options)
            if self._profiler is not None and not self._profiler.running:
                self._profiler.start()
                self._owns = True

    def step(self) -> None:
        """Ends an optimizer step."""
        with self._guard():
            if self._profiler is not None:
                self._profiler.step()

    def leave_out(self, evaluation: bool) -> None:
        """Whether what comes next is an evaluation, which is no part of training."""
        with self._guard():
            self._evaluation.close()
            if evaluation and self._profiler is not None:
                self._evaluation.enter_context(self._profiler.paused())

    def figures(self) -> dict[str, float]:
        """For the log of the framework, since the start or of the last window; what is unknown is left out."""
        found: dict[str, float] = {}
        with self._guard():
            stats = self.stats
            if stats is not None and stats.total["calls"] > 0:
                known = {
                    "attention_share": stats.time["attention_share"],
                    "attention_peak_bytes": stats.total["peak_bytes"],
                    "attention_tflop_per_s": stats.total["tflop_per_s"],
                }
                found.update({name: value for name, value in known.items() if value is not None})
        return found

    def end(self, *, write: bool = True) -> None:
        """Stops, and writes the report; `write` is False on all ranks but one."""
        with self._guard():
            self._stop()
        with self._guard():
            if write and self._output is not None and self._profiler is not None:
                self._profiler.get_stats().to_json(self._output)
        if self._failure is not None:
            # Not warnings.warn, which an interpreter may have been told to raise.
            _log.warning("attention profile: %s", _named(self._failure))

    def _stop(self) -> None:
        self._evaluation.close()
        if self._owns and self._profiler is not None:
            self._owns = False
            self._profiler.stop()

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            self._failure = self._failure or failure

    def __reduce__(self) -> tuple[Callable[..., TrainingRun], tuple[Any, ...]]:
        # Frameworks copy their callbacks and send them to processes of their own: without what a run has made.
        return TrainingRun, (self._given, self._options, self._output)


def _named(failure: Exception) -> str:
    return str(failure) if isinstance(failure, Error) else f"{type(failure).__name__}: {failure}"
