"""The cells of a sweep: the product of its axes, less what a phase cannot be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headscope._native import Error

PHASES = ("prefill", "decode", "encode")
#: What tells the cells of one sweep apart, in the order of its columns.
COORDINATES = ("phase", "variant", "dtype", "batch", "q_len", "kv_len")

MOST_CELLS = 10_000


@dataclass(frozen=True)
class Cell:
    """One point of the grid. Lengths in tokens; what a target decides for itself is None.

    `kv_len` is the number of keys that the queries meet, those of the `q_len` new tokens among them.
    """

    phase: str
    variant: str
    dtype: str | None
    batch: int
    q_len: int
    kv_len: int
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    head_dim_v: int | None
    device: str

    @property
    def causal(self) -> bool:
        """Whether a query sees only what comes before it; the one query of a decode step sees all there is."""
        return self.phase == "prefill"

    @property
    def coordinates(self) -> dict[str, Any]:
        """What tells this cell from the others of its sweep."""
        return {name: getattr(self, name) for name in COORDINATES}

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the fields, and `causal`."""
        return {**asdict(self), "causal": self.causal}


@dataclass(frozen=True)
class Axes:
    """The values along each axis. `q_len` or `kv_len` may be None, not both: then one is derived from the other."""

    phases: tuple[str, ...]
    variants: tuple[str, ...]
    dtypes: tuple[str | None, ...]
    batch: tuple[int, ...]
    q_len: tuple[int, ...] | None
    kv_len: tuple[int, ...] | None


def axis(name: str, values: Any, check: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The values of one axis, each once and in their order; a single value is an axis of one.

    Raises Error for an empty axis and for one of more than MOST_CELLS values, which may have no end.
    """
    single = isinstance(values, str) or not isinstance(values, Iterable)
    found = [values] if single else list(itertools.islice(values, MOST_CELLS + 1))
    if not found:
        raise Error(f"the axis {name} is empty: give at least one value")
    if len(found) > MOST_CELLS:
        raise Error(f"the axis {name} has more than {MOST_CELLS:,} values, or no end: give a list of fewer")
    return tuple(dict.fromkeys(check(value) for value in found))


def positive(name: str) -> Callable[[Any], int]:
    """A check for `axis` that takes positive integers alone, those of numpy too."""

    def check(value: Any) -> int:
        try:
            whole = value.__index__()
        except (AttributeError, TypeError):
            whole = 0
        if isinstance(value, bool) or whole <= 0:
            raise Error(f"{name} must be a positive integer, not {value!r}")
        return int(whole)

    return check


def checked_phase(phase: Any) -> str:
    """`phase` itself; raises Error, with the list, for one that a sweep does not know."""
    if phase not in PHASES:
        raise Error(f"phase must be one of {', '.join(PHASES)}, not {phase!r}")
    return str(phase)


def lay_out(axes: Axes, geometry: dict[str, int | None], device: str) -> tuple[list[Cell], list[dict[str, Any]]]:
    """The cells of a grid in the order in which they run, and what was left out: combinations with a reason each.

    Raises Error when no cell is left, and for more than MOST_CELLS combinations.
    """
    if axes.q_len is None and axes.kv_len is None:
        raise Error("give q_len, the lengths of prompts, or kv_len, the lengths of caches, or both")
    q_lens = axes.q_len or (None,)
    kv_lens = axes.kv_len or (None,)
    combinations = len(axes.phases) * len(axes.variants) * len(axes.dtypes) * len(axes.batch)
    combinations *= len(q_lens) * len(kv_lens)
    if combinations > MOST_CELLS:
        raise Error(f"the grid has {combinations:,} cells, and a sweep at most {MOST_CELLS:,}: shorten an axis")

    cells: dict[Cell, None] = {}
    left_out: dict[tuple[str, int, int], str] = {}
    # Small problems first, so that much is known before memory or patience runs out.
    for batch, kv_len, q_len in itertools.product(sorted(axes.batch), kv_lens, q_lens):
        for phase, dtype, variant in itertools.product(axes.phases, axes.dtypes, axes.variants):
            queries, keys = _lengths(phase, q_len, kv_len)
            reason = _impossible(phase, queries, keys)
            if reason is None:
                cells[Cell(phase, variant, dtype, batch, queries, keys, **geometry, device=device)] = None
            else:
                left_out[phase, queries, keys] = reason
    listed = [
        {"phase": phase, "q_len": queries, "kv_len": keys, "reason": reason}
        for (phase, queries, keys), reason in left_out.items()
    ]
    if axes.q_len is not None and axes.kv_len is not None and "decode" in axes.phases:
        listed += [
            {"phase": "decode", "q_len": length, "kv_len": None, "reason": "a decode step has one query: q_len is 1"}
            for length in axes.q_len
            if length != 1
        ]
    if not cells:
        raise Error(f"no cell is left of the grid: {listed[0]['reason']}")
    return list(cells), listed


def _lengths(phase: str, q_len: int | None, kv_len: int | None) -> tuple[int, int]:
    keys = kv_len if kv_len is not None else q_len
    queries = 1 if phase == "decode" else q_len if q_len is not None else kv_len
    assert queries is not None
    assert keys is not None
    return queries, keys


def _impossible(phase: str, q_len: int, kv_len: int) -> str | None:
    if phase == "prefill" and q_len > kv_len:
        return f"{q_len} tokens of a prompt are keys too, and cannot meet {kv_len} keys in all"
    if phase == "encode" and q_len != kv_len:
        return f"an encoder's {q_len} tokens are its keys: kv_len is q_len, not {kv_len}"
    return None
