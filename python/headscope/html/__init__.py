"""Offline HTML made from the plain data of a report alone (`Stats.to_dict()`, or the JSON file)."""

from __future__ import annotations

from html import escape
from typing import Any

from headscope.html.tables import head_table, layer_table, list_table, total_table

__all__ = ["fragment", "page"]

_STYLE = """
.headscope{font:13px/1.5 system-ui,sans-serif;color:#1c2330}
.headscope h2{font-size:15px;margin:1.2em 0 .4em}
.headscope table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.headscope th,.headscope td{padding:2px 10px;border-bottom:1px solid #e3e6ea;text-align:right;white-space:nowrap}
.headscope th{font-weight:600;background:#f5f6f8}
.headscope td.text,.headscope th.text{text-align:left}
.headscope .bar{background:linear-gradient(to right,#cfe0f7 var(--share),transparent var(--share))}
.headscope .scroll{overflow-x:auto}
.headscope .note{color:#5b6472}
"""


def fragment(data: dict[str, Any]) -> str:
    """A <div> with the total, a row a layer, the heads of each layer and the diagnostics."""
    parts = [
        f"<style>{_STYLE}</style>",
        "<h2>All attention</h2>",
        total_table(data),
        "<h2>Layers</h2>",
        layer_table(data["attention_breakdown"]),
    ]
    if data.get("heads"):
        parts += ["<details><summary>Heads</summary>", head_table(data["heads"]), "</details>"]
    unseen = data["diagnostics"].get("not_observable")
    if unseen:
        parts += ["<h2>Not observable</h2>", list_table(unseen, ("what", "reason"))]
    return f'<div class="headscope">{"".join(parts)}</div>'


def page(data: dict[str, Any], title: str = "headscope") -> str:
    """A whole document that needs no network."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f"<body>{fragment(data)}</body></html>\n"
    )
