"""What stands out in the rows of a sweep: sweet spots and cliffs. docs/sweeps.md states both rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from headscope.sweeping.grid import COORDINATES

Row = dict[str, Any]

#: How far a growth exponent must lie beyond what is expected: constant parts and rounded sizes stay below it.
MARGIN = 0.1
#: Fewest timed runs whose percentiles bound a growth of time.
FEWEST_RUNS = 3


def sweet_spots(rows: list[Row]) -> list[Row]:
    """One entry a series along batch: the cell of most tokens per second for each byte of memory.

    `coordinates` of that cell, its `tokens_per_s`, `memory_bytes` and their ratio, and `clear`: whether its lead over
    the next best is larger than the spread of both times. Where none can be named, `coordinates` is None and `reason`
    says why.
    """
    return [_sweet_spot(series, fixed) for series, fixed in _series(rows, ("batch",))]


def cliffs(rows: list[Row]) -> list[Row]:
    """Steps along batch, q_len or kv_len from which time or memory grows faster than its axis.

    An entry has the `axis`, the `series` (what stays the same), the `metric`, the values `before` and `at`, the
    `growth` of the metric and its `exponent` (1 is linear) with the lowest one that the spread allows, the exponent of
    the FLOPs, and `beyond_work`: whether it grows faster than those too. Of a series, axis and metric there are the
    first step of all and the first one beyond the work. Running out of memory is a step of metric memory_bytes without
    figures, besides those.
    """
    found = []
    for axis in (("batch",), ("q_len",), ("kv_len",), ("q_len", "kv_len")):
        for series, fixed in _series(rows, axis):
            for metric in ("latency_ns", "memory_bytes"):
                found += _cliffs(series, fixed, axis[0], metric)
    return found


def _series(rows: list[Row], axis: tuple[str, ...]) -> Iterator[tuple[list[Row], Row]]:
    """Rows that differ along `axis` alone, by its value, and what they have in common; of two rows at least.

    Of ("q_len", "kv_len") these are rows with as many queries as keys, which grow together.
    """
    square = axis == ("q_len", "kv_len")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    fixed = [name for name in COORDINATES if name not in axis]
    for row in rows:
        if row["status"] != "not_run" and (not square or row["q_len"] == row["kv_len"]):
            groups.setdefault(tuple(row[name] for name in fixed), []).append(row)
    for key, group in groups.items():
        if len(group) > 1:
            yield sorted(group, key=lambda row: int(row[axis[0]])), dict(zip(fixed, key, strict=True))


def _sweet_spot(series: list[Row], fixed: Row) -> Row:
    def worth(row: Row) -> float:
        return float(row["tokens_per_s"]) / float(row["memory_bytes"])

    known = [row for row in series if row["status"] == "ok" and row["tokens_per_s"] and row["memory_bytes"]]
    if len(known) < 2:
        reason = f"of {len(series)} batch sizes {len(known)} ran with a known throughput and memory; it takes two"
        return {"series": fixed, "coordinates": None, "reason": reason}
    # The smaller batch where two are equal: sorted() and the series keep their order.
    best, second = sorted(known, key=worth, reverse=True)[:2]
    slowest = worth(best) * best["latency_ns"] / best["latency_p90_ns"]
    fastest = worth(second) * second["latency_ns"] / second["latency_p10_ns"]
    return {
        "series": fixed,
        "coordinates": {name: best[name] for name in COORDINATES},
        "tokens_per_s": best["tokens_per_s"],
        "memory_bytes": best["memory_bytes"],
        "tokens_per_s_per_byte": worth(best),
        "clear": slowest > fastest,
        "reason": None,
    }


def _cliffs(series: list[Row], fixed: Row, axis: str, metric: str) -> list[Row]:
    found: list[Row] = []
    beyond_work = False
    for before, at in itertools.pairwise(series):
        if before["status"] != "ok":
            continue
        place = {"axis": axis, "series": fixed, "metric": metric, "before": before[axis], "at": at[axis]}
        if at["status"] == "oom" and metric == "memory_bytes":
            figures = dict.fromkeys(("growth", "exponent", "exponent_low", "work_exponent", "beyond_work"))
            return [*found, {**place, **figures, "reason": f"out of memory: {at['reason']}"}]
        step = _growth(before, at, axis, metric)
        if step is None or step["exponent_low"] <= 1 + MARGIN or beyond_work:
            continue
        if step["beyond_work"] or not found:
            found.append({**place, **step, "reason": None})
            beyond_work = bool(step["beyond_work"])
    return found


def _growth(before: Row, at: Row, axis: str, metric: str) -> Row | None:
    """How a metric grows over one step; None where a figure is unknown or too few runs bound it."""
    if at["status"] != "ok" or not before[metric] or not at[metric]:
        return None
    low = at[metric] / before[metric]
    if metric == "latency_ns":
        if min(before["runs"], at["runs"]) < FEWEST_RUNS:
            return None
        low = at["latency_p10_ns"] / before["latency_p90_ns"]
    span = math.log(at[axis] / before[axis])
    work = math.log(at["flops"] / before["flops"]) / span if before["flops"] and at["flops"] else None
    lowest = math.log(low) / span
    return {
        "growth": at[metric] / before[metric],
        "exponent": math.log(at[metric] / before[metric]) / span,
        "exponent_low": lowest,
        "work_exponent": work,
        "beyond_work": None if work is None else lowest > max(1.0, work) + MARGIN,
    }
