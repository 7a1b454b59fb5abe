"""Stats: a snapshot of a profiler as plain data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, get_args, overload

from headscope._native import Budget, Error, Violation, core
from headscope.export import data_frame, write_text

Row = dict[str, Any]
Table = Literal["attention_breakdown", "heads", "calls", "steps", "phases", "positions", "kv_cache", "stages"]


class Stats(Mapping[str, Any]):
    """What a profiler collected, at one moment. It does not change when the profiler goes on.

    A Mapping of plain data (dict, list, str, int, float, bool, None), whose keys are attributes as well:
    `stats["attention_breakdown"]` is `stats.attention_breakdown`. Times are integer nanoseconds (`*_ns`), sizes bytes.
    What is not known is None; `stats["meta"]` says why. print(stats) shows a table.
    """

    def __init__(self, snapshot: core.Stats) -> None:
        self._snapshot = snapshot

    @cached_property
    def _data(self) -> dict[str, Any]:
        return self._snapshot.to_dict()

    # A Mapping of plain data.

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._data[name]
        except KeyError:
            raise AttributeError(f"Stats has no key {name!r}; it has {', '.join(self._data)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._data]

    @property
    def total(self) -> Row:
        """All attention together."""
        total: Row = self._data["total"]
        return total

    @property
    def attention_breakdown(self) -> list[Row]:
        """One row a (layer, variant, op, phase, direction, device, dtype, head geometry)."""
        rows: list[Row] = self._data["attention_breakdown"]
        return rows

    @property
    def heads(self) -> list[Row] | None:
        """One row a (layer, head, direction); sums over heads equal the layer's. None with per_head=False."""
        rows: list[Row] | None = self._data["heads"]
        return rows

    # Selections.

    def rows(self, *, layer: str = "*", phase: str = "*", direction: str = "*", variant: str = "*") -> list[Row]:
        """Rows of `attention_breakdown` that match all the globs (`*` any characters, `?` one)."""
        globs = {"layer": layer, "phase": phase, "direction": direction, "variant": variant}
        patterns = {key: _compiled_glob(key, glob) for key, glob in globs.items()}
        return [
            row
            for row in self.attention_breakdown
            if all(pattern.fullmatch(row[key]) for key, pattern in patterns.items())
        ]

    def layer(self, name: str) -> list[Row]:
        """Rows of the layer of exactly this name. Raises Error that lists the layers when there is none."""
        rows = [row for row in self.attention_breakdown if row["layer"] == name]
        if not rows:
            known = list(dict.fromkeys(row["layer"] for row in self.attention_breakdown))
            listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
            raise Error(f"no attention was seen in a layer {name!r}; layers seen: {listed or 'none'}")
        return rows

    # Budgets.

    def check(self, budget: Budget | None = None, **limits: Any) -> list[Violation]:
        """The violations of a Budget, or of the same keywords given directly; empty when it is met."""
        return self._snapshot.check(_one_budget(budget, limits))

    def assert_budget(self, budget: Budget | None = None, **limits: Any) -> None:
        """AssertionError that lists the violations of a Budget, or of the same keywords given directly."""
        budget = _one_budget(budget, limits)
        violations = self._snapshot.check(budget)
        if violations:
            listed = "\n".join(f"  {violation}" for violation in violations)
            raise AssertionError(f"attention is over budget, {budget!r}:\n{listed}")

    # Reports.

    def table(self, *, width: int = 120, heads_of: str = "", max_rows: int = 40) -> str:
        """A readable table of at most `width` columns, and the heads of the layers that match `heads_of` (a glob)."""
        return self._snapshot.to_text(width=width, heads_of=heads_of, max_rows=max_rows)

    def __str__(self) -> str:
        return self._snapshot.to_text()

    def __repr__(self) -> str:
        return (
            f"<headscope.Stats: {self.total['calls']} calls, {len(self.attention_breakdown)} rows; print() shows them>"
        )

    def _repr_html_(self) -> str:
        from headscope.html import fragment

        return fragment(self._data)

    def to_dict(self) -> dict[str, Any]:
        """Plain data of your own: changing it changes no Stats."""
        return self._snapshot.to_dict()

    @overload
    def to_json(self, path: None = None, *, indent: int = 2) -> str: ...
    @overload
    def to_json(self, path: str | os.PathLike[str], *, indent: int = 2) -> None: ...
    def to_json(self, path: str | os.PathLike[str] | None = None, *, indent: int = 2) -> str | None:
        """JSON text, or writes it to `path`. Integers above 2**53 become decimal strings.

        Raises Error when the file cannot be written.
        """
        text = self._snapshot.to_json(indent)
        if path is None:
            return text
        write_text(path, text + "\n")
        return None

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page that needs no network. Raises Error when the file cannot be written."""
        from headscope.html import page

        write_text(path, page(self._data))

    def to_pandas(self, table: Table = "attention_breakdown") -> Any:
        """A pandas.DataFrame, one line a row; of "positions" a bin of a series. Inner keys get a dot: `time_ns.p50`.

        Raises Error when pandas is missing, or when the table was not collected.
        """
        if table not in get_args(Table):
            raise Error(f"table must be one of {', '.join(map(repr, get_args(Table)))}, not {table!r}")
        rows = _bins(self._data[table]) if table == "positions" else self._data[table]
        if rows is None:
            reason = self._data["meta"].get("absent_sections", {}).get(table, "it was not collected")
            raise Error(f"there is no table {table!r}: {reason}")
        return data_frame(_flat_rows(rows))

    def __copy__(self) -> Stats:
        return Stats(self._snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> Stats:
        return Stats(self._snapshot)

    def __reduce__(self) -> Any:
        raise Error("Stats cannot be pickled: keep to_dict(), or write to_json(path)")


def _one_budget(budget: Budget | None, limits: dict[str, Any]) -> Budget:
    if budget is None:
        if not limits:
            raise Error("give a Budget or limits, for example assert_budget(max_total_flops=10**9)")
        return Budget(**limits)
    if not isinstance(budget, Budget):
        raise Error(f"budget must be a headscope.Budget, not {budget!r}")
    if limits:
        raise Error("give either a Budget or limits, not both")
    return budget


def _compiled_glob(key: str, glob: str) -> re.Pattern[str]:
    if not isinstance(glob, str):
        raise Error(f"{key} must be a str with * and ? as wildcards, not {glob!r}")
    # Not fnmatch: there [3] is a set of characters, and layers without a name are called attention[3].
    return re.compile(re.escape(glob).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def _bins(series: list[Row] | None) -> list[Row] | None:
    """A row a bin, with what its series says of it."""
    if series is None:
        return None
    inner = ("bins", "fit", "outliers")
    return [{**{k: v for k, v in one.items() if k not in inner}, **bin} for one in series for bin in one["bins"]]


def _flat_rows(rows: list[Row]) -> list[Row]:
    """Moves the members of inner dicts up, under "key.member". Where only some rows hold a dict, the plain value
    of the others stays under "key"."""
    nested = {key for row in rows for key, value in row.items() if isinstance(value, dict)}
    flat_rows: list[Row] = []
    for row in rows:
        flat: Row = {}
        for key, value in row.items():
            if isinstance(value, dict):
                flat.update({f"{key}.{member}": inner for member, inner in value.items()})
            elif value is not None or key not in nested:
                flat[key] = value
        flat_rows.append(flat)
    return flat_rows
