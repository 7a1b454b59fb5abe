"""One figure of a sweep over two of its axes, as text, HTML or plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from headscope._native import Error
from headscope.formatting import duration, quantity, rate
from headscope.sweeping.cells import FIGURES
from headscope.sweeping.grid import COORDINATES

_SHADES = " ░▒▓█"


@dataclass(frozen=True)
class HeatMap:
    """`values[j][i]` is the figure at `ys[j]`, `xs[i]`; None where it is unknown, and then `marks[j][i]` says why."""

    x: str
    y: str
    value: str
    fixed: dict[str, Any]
    xs: list[Any]
    ys: list[Any]
    values: list[list[float | None]]
    marks: list[list[str]]

    def __str__(self) -> str:
        """A line a y; the shade before a figure goes from blank, the lowest, to full, the highest."""
        shades = self._shares()
        lines = [[f"{self.y} \\ {self.x}", *map(str, self.xs)]]
        for j, y in enumerate(self.ys):
            cells = [
                f"{_SHADES[round(share * (len(_SHADES) - 1))] if share is not None else ' '} {self._text(j, i)}"
                for i, share in enumerate(shades[j])
            ]
            lines.append([str(y), *cells])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self._title(), *table])

    def to_html(self) -> str:
        """A <table>, coloured from the lowest figure to the highest."""
        heads = "".join(f"<th>{escape(str(x))}</th>" for x in self.xs)
        body = []
        for j, (y, shares) in enumerate(zip(self.ys, self._shares(), strict=True)):
            cells = "".join(
                f'<td style="background:rgba(47,111,203,{0.75 * (share or 0.0):.2f})">{escape(self._text(j, i))}</td>'
                for i, share in enumerate(shares)
            )
            body.append(f"<tr><th>{escape(str(y))}</th>{cells}</tr>")
        corner = escape(f"{self.y} \\ {self.x}")
        caption = escape(self._title())
        return f"<table><caption>{caption}</caption><tr><th>{corner}</th>{heads}</tr>{''.join(body)}</table>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def _title(self) -> str:
        same = ", ".join(f"{name} {value}" for name, value in self.fixed.items())
        return f"{self.value} over {self.x} and {self.y}" + (f" ({same})" if same else "")

    def _text(self, j: int, i: int) -> str:
        value = self.values[j][i]
        return self.marks[j][i] if value is None else figure_text(self.value)(value)

    def _shares(self) -> list[list[float | None]]:
        known = [value for line in self.values for value in line if value is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        span = high - low

        def share(value: float | None) -> float | None:
            return None if value is None else (value - low) / span if span else 0.0

        return [[share(value) for value in line] for line in self.values]


def heat_map(rows: list[dict[str, Any]], x: str, y: str, value: str, fixed: dict[str, Any]) -> HeatMap:
    """The map of `value` over two coordinates, of the rows that `fixed` selects.

    Raises Error for unknown names, and where two rows fall on one place: then another coordinate must be fixed.
    """
    for name, known, word in ((x, COORDINATES, "x"), (y, COORDINATES, "y"), (value, FIGURES, "value")):
        if name not in known:
            raise Error(f"{word} must be one of {', '.join(known)}, not {name!r}")
    if x == y:
        raise Error(f"x and y are both {x!r}: choose two axes")
    for name in fixed:
        if name not in COORDINATES or name in (x, y):
            raise Error(f"cannot fix {name!r}: choose among {', '.join(set(COORDINATES) - {x, y})}")
    chosen = [row for row in rows if all(row[name] == wanted for name, wanted in fixed.items())]
    if not chosen:
        raise Error(f"no cell has {', '.join(f'{name}={wanted!r}' for name, wanted in fixed.items()) or 'been run'}")
    others = [name for name in COORDINATES if name not in (x, y)]
    places: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in chosen:
        twin = places.setdefault((row[x], row[y]), row)
        if twin is not row:
            name = next(name for name in others if twin[name] != row[name])
            choices = sorted({str(each[name]) for each in chosen})
            raise Error(f"several cells have one {x} and {y}: fix {name} too, to one of {', '.join(choices)}")
    if not any(row[value] is None or isinstance(row[value], (int, float)) for row in chosen):
        raise Error(f"{value} is no number, and a map shows numbers: choose latency_ns, tokens_per_s or the like")
    xs, ys = (sorted({row[name] for row in chosen}) for name in (x, y))
    found = [[places.get((across, down)) for across in xs] for down in ys]
    return HeatMap(
        x=x,
        y=y,
        value=value,
        fixed={name: chosen[0][name] for name in others if len({row[name] for row in chosen}) == 1},
        xs=xs,
        ys=ys,
        values=[[None if row is None else row[value] for row in line] for line in found],
        marks=[[_mark(row) for row in line] for line in found],
    )


def figure_text(name: str) -> Callable[[Any], str]:
    """How a figure of this name is written."""
    if name.endswith("_ns"):
        return duration
    if name.endswith("bytes") or name == "bytes_materialized":
        return lambda value: quantity(value, "B")
    return rate if name in ("gb_per_s", "tflop_per_s", "flops_per_byte") else quantity


def _mark(row: dict[str, Any] | None) -> str:
    return "" if row is None else "–" if row["status"] == "ok" else str(row["status"])
