"""Runs a program under a profiler that keeps each call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from headscope import AttentionProfiler, Stats

Row = dict[str, Any]


@dataclass(frozen=True)
class Watched:
    """What a program returned, and what was seen of it."""

    result: Any
    stats: Stats

    def calls(self, direction: str | None = None) -> list[Row]:
        return [call for call in self.stats["calls"] if direction in (None, call["direction"])]

    @property
    def call(self) -> Row:
        """The one call there was."""
        calls = self.calls()
        assert len(calls) == 1, calls
        return calls[0]

    @property
    def row(self) -> Row:
        """The one row there is."""
        rows = self.stats.attention_breakdown
        assert len(rows) == 1, rows
        return rows[0]


def watch(program: Callable[[], Any], model: nn.Module | None = None, **options: Any) -> Watched:
    """Runs `program` once. The call must leave no failure behind in the profiler itself."""
    profiler = AttentionProfiler(model, keep_calls=1000, **options)
    with profiler:
        result = program()
    stats = profiler.get_stats()
    assert stats["diagnostics"]["hook_errors"] == 0
    return Watched(result, stats)
