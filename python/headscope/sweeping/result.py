"""SweepResult: the rows of a sweep, and what stands out in them."""

from __future__ import annotations

import json
import os
from functools import cached_property
from html import escape
from typing import Any

from headscope._native import Error
from headscope.export import data_frame, write_text
from headscope.sweeping.find import cliffs, sweet_spots
from headscope.sweeping.grid import COORDINATES
from headscope.sweeping.heat_map import HeatMap, figure_text, heat_map
from headscope.text_table import text_table

_FORMAT = 1
_SHOWN = {
    "latency_ns": "median",
    "latency_p10_ns": "p10",
    "latency_p90_ns": "p90",
    "tokens_per_s": "tokens/s",
    "attention_ns": "attention",
    "flops": "FLOPs",
    "bytes": "bytes",
    "gb_per_s": "GB/s",
    "tflop_per_s": "TFLOP/s",
    "peak_bytes": "peak",
    "memory_bytes": "memory",
    "kv_bytes": "KV",
}


class SweepResult:
    """What a sweep found: plain data, which `to_json` keeps and `from_json` reads.

    `rows`: a dict a cell, in the order in which they ran; docs/sweeps.md explains the columns. `left_out`: which
    combinations were not run, and why. `meta`: of what sweep. print(result) shows a table.
    """

    def __init__(self, meta: dict[str, Any], rows: list[dict[str, Any]], left_out: list[dict[str, Any]]) -> None:
        self.meta = meta
        self.rows = rows
        self.left_out = left_out

    @cached_property
    def sweet_spots(self) -> list[dict[str, Any]]:
        """For each series along batch the cell of most throughput per byte of memory, or why there is none."""
        return sweet_spots(self.rows)

    @cached_property
    def cliffs(self) -> list[dict[str, Any]]:
        """The first steps along batch, q_len and kv_len from which latency or memory grows faster than the axis."""
        return cliffs(self.rows)

    def heat_map(self, x: str = "kv_len", y: str = "batch", value: str = "latency_ns", **fixed: Any) -> HeatMap:
        """One figure over two axes; `fixed` coordinates, such as phase="decode", select the cells.

        Raises Error where that leaves several cells on one place.
        """
        return heat_map(self.rows, x, y, value, fixed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: meta, rows, left_out, sweet_spots and cliffs."""
        return {
            "headscope_sweep_result": _FORMAT,
            "meta": self.meta,
            "rows": self.rows,
            "left_out": self.left_out,
            "sweet_spots": self.sweet_spots,
            "cliffs": self.cliffs,
        }

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the result as JSON. Raises Error when the file cannot be written."""
        write_text(path, json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> SweepResult:
        """What `to_json` wrote. Raises Error for a file that cannot be read or is no such result."""
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except OSError as error:
            raise Error(f"cannot read {os.fspath(path)}: {error.strerror}") from error
        except ValueError as error:
            raise Error(f"{os.fspath(path)} is no JSON: {error}") from error
        if not isinstance(data, dict) or data.get("headscope_sweep_result") != _FORMAT:
            raise Error(f"{os.fspath(path)} is no result of a sweep: give a file that SweepResult.to_json wrote")
        return cls(data["meta"], data["rows"], data["left_out"])

    def to_pandas(self) -> Any:
        """A pandas.DataFrame, one line a cell. Raises Error when pandas is missing."""
        return data_frame(self.rows)

    def to_html(self, path: str | os.PathLike[str], *maps: HeatMap) -> None:
        """Writes a page that needs no network: the findings, the maps given, and all rows."""
        lines = "".join(f"<li>{escape(line)}</li>" for line in self._findings())
        head, *body = self._cells()
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body)
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        write_text(
            path,
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>headscope sweep</title><style>'
            "body{font:13px/1.5 system-ui,sans-serif;color:#1c2330}table{border-collapse:collapse;margin:1em 0}"
            "th,td{padding:2px 10px;border-bottom:1px solid #e3e6ea;text-align:right}caption{text-align:left}"
            f"</style></head><body><h2>{escape(self._title())}</h2><ul>{lines}</ul>"
            f"{''.join(each.to_html() for each in maps)}<table><tr>{titles}</tr>{rows}</table></body></html>\n",
        )

    def __str__(self) -> str:
        return self.table()

    def table(self, *, width: int = 160) -> str:
        """A line a cell, in at most `width` columns, and what stands out."""
        return "\n".join([self._title(), "", text_table(self._cells(), width), "", *self._findings()]).rstrip()

    def __repr__(self) -> str:
        return f"<headscope.SweepResult: {len(self.rows)} cells; print() shows them>"

    def _title(self) -> str:
        sweep = self.meta["sweep"]
        geometry = ", ".join(
            f"{name} {sweep[name]}"
            for name in ("heads", "kv_heads", "head_dim", "head_dim_v")
            if sweep[name] is not None
        )
        return f"sweep of {sweep['target']} on {sweep['device']}" + (f": {geometry}" if geometry else "")

    def _cells(self) -> list[list[str]]:
        known = [name for name in _SHOWN if any(row[name] is not None for row in self.rows)]
        lines = [[*COORDINATES, *(_SHOWN[name] for name in known)]]
        for row in self.rows:
            lead = ["–" if row[name] is None else str(row[name]) for name in COORDINATES]
            if row["status"] == "ok":
                lines.append([*lead, *(figure_text(name)(row[name]) for name in known)])
            else:
                lines.append([*lead, row["status"], *[""] * (len(known) - 1)][: len(lead) + max(len(known), 1)])
        if not known:
            lines[0].append("status")
        return lines

    def _findings(self) -> list[str]:
        lines = [_sweet_spot_text(spot) for spot in self.sweet_spots if spot["coordinates"] is not None]
        lines += [_cliff_text(cliff) for cliff in self.cliffs]
        reasons: dict[tuple[str, str], int] = {}
        for row in self.rows:
            if row["status"] != "ok":
                key = row["status"], f"{row['variant']}: {row['reason']}"
                reasons[key] = reasons.get(key, 0) + 1
        lines += [f"{status}, {_count(count)}: {reason}" for (status, reason), count in reasons.items()]
        for reason in dict.fromkeys(entry["reason"] for entry in self.left_out):
            lines.append(f"left out: {reason}")
        return lines


def _count(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"


def _names(coordinates: dict[str, Any]) -> str:
    return " ".join(
        f"{name} {value}" if name in ("batch", "q_len", "kv_len") else str(value)
        for name, value in coordinates.items()
        if value is not None
    )


def _sweet_spot_text(spot: dict[str, Any]) -> str:
    figures = (
        f"{figure_text('tokens_per_s')(spot['tokens_per_s'])} tokens/s in {figure_text('bytes')(spot['memory_bytes'])}"
    )
    doubt = "" if spot["clear"] else "; the next best is within the spread"
    return f"sweet spot of {_names(spot['series'])}: batch {spot['coordinates']['batch']} ({figures}{doubt})"


def _cliff_text(cliff: dict[str, Any]) -> str:
    metric = {"latency_ns": "latency", "memory_bytes": "memory"}[cliff["metric"]]
    place = f"{cliff['axis']} {cliff['before']} → {cliff['at']} of {_names(cliff['series'])}"
    if cliff["exponent"] is None:
        return f"cliff in {metric} at {place}: {cliff['reason']}"
    work = cliff["work_exponent"]
    beside = "" if work is None else f"; its FLOPs as {cliff['axis']}^{work:.2f}"
    kind = "cliff" if cliff["beyond_work"] else "superlinear"
    return f"{kind} in {metric} at {place}: ×{cliff['growth']:.3g}, as {cliff['axis']}^{cliff['exponent']:.2f}{beside}"
