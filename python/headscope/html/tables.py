"""Tables of a report as HTML. Every text from the report is escaped; what is unknown is a dash."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from headscope.formatting import duration, percent, quantity, rate, span

Row = dict[str, Any]

_LAYER_HEADINGS = (
    "layer",
    "variant",
    "phase",
    "direction",
    "heads/kv",
    "q×kv",
    "calls",
    "time",
    "FLOPs",
    "bytes",
    "materialised",
    "GB/s",
    "peak",
    "fallback",
)
_HEAD_HEADINGS = (
    "layer",
    "direction",
    "head",
    "kv_head",
    "calls",
    "time",
    "FLOPs",
    "bytes",
    "materialised",
    "provenance",
)


def total_table(data: dict[str, Any]) -> str:
    total, time, diagnostics = data["total"], data["time"], data["diagnostics"]
    cells = {
        "calls": _plain(total["calls"]),
        "time": duration(_total_ns(total)),
        "share of wall time": percent(time.get("attention_share")),
        "FLOPs": quantity(total.get("flops")),
        "bytes moved once": quantity(total.get("bytes"), "B"),
        "materialised": quantity(total.get("bytes_materialized"), "B"),
        "peak": quantity(total.get("peak_bytes"), "B"),
        "own overhead": percent(diagnostics.get("overhead_share")),
    }
    return _table(cells, [[_cell(value) for value in cells.values()]])


def layer_table(rows: list[Row]) -> str:
    if not rows:
        return '<p class="note">No attention was seen.</p>'
    longest = max((_total_ns(row) or 0 for row in rows), default=0)
    lines = []
    for row in rows:
        time = _total_ns(row)
        share = 100.0 * time / longest if time and longest else 0.0
        lines.append(
            [
                _text(row["layer"]),
                _text(row["variant"]),
                _text(row["phase"]),
                _text(row["direction"]),
                _cell(f"{row['heads']}/{row['kv_heads']}"),
                _cell(f"{span(row['q_len'])} × {span(row['kv_len'])}"),
                _cell(_plain(row["calls"])),
                f'<td class="bar" style="--share:{share:.1f}%">{duration(time)}</td>',
                _cell(quantity(row.get("flops"))),
                _cell(quantity(row.get("bytes"), "B")),
                _cell(quantity(row.get("bytes_materialized"), "B")),
                _cell(rate(row.get("gb_per_s"))),
                _cell(quantity(row.get("peak_bytes"), "B")),
                _text(row.get("fallback_reason") or ""),
            ]
        )
    return _table(
        _LAYER_HEADINGS,
        lines,
        text_columns=4,
    )


def head_table(rows: list[Row]) -> str:
    lines = [
        [
            _text(row["layer"]),
            _text(row["direction"]),
            _cell(str(row["head"])),
            _cell(str(row["kv_head"])),
            _cell(_plain(row["calls"])),
            _cell(duration(row.get("time_ns"))),
            _cell(quantity(row.get("flops"))),
            _cell(quantity(row.get("bytes"), "B")),
            _cell(quantity(row.get("bytes_materialized"), "B")),
            _text(row.get("time_provenance") or ""),
        ]
        for row in rows
    ]
    return _table(_HEAD_HEADINGS, lines, text_columns=2)


def list_table(rows: list[Row], keys: tuple[str, ...]) -> str:
    return _table(keys, [[_text(str(row[key])) for key in keys] for row in rows], text_columns=len(keys))


def _total_ns(row: Row) -> int | None:
    time = row.get("time_ns")
    return None if time is None else int(time["total"])


def _plain(value: Any) -> str:
    return "–" if value is None else f"{int(value):,}"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _text(text: str) -> str:
    return f'<td class="text">{escape(text)}</td>'


def _table(headings: Iterable[str], lines: list[list[str]], text_columns: int = 0) -> str:
    head = "".join(
        f'<th class="text">{escape(name)}</th>' if column < text_columns else f"<th>{escape(name)}</th>"
        for column, name in enumerate(headings)
    )
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
