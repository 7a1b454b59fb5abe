"""Implementations of attention side by side, on the same numbers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from typing import Any

import torch

from headscope._native import Error
from headscope.attention_variants import (
    DTYPES,
    VARIANTS,
    Attention,
    Geometry,
    Unavailable,
    build,
    checked_device,
    checked_dtype,
    checked_heads,
    checked_variant,
    first_line,
    refusals,
)
from headscope.export import write_text
from headscope.formatting import duration, quantity, rate
from headscope.measurement import Measurement, Plan, Work, free_memory, is_out_of_memory, measure
from headscope.sweeping.grid import axis, positive
from headscope.text_table import text_table

Row = dict[str, Any]

_FIGURES = (
    *("time_ns", "time_p10_ns", "time_p90_ns", "runs", "speed_up", "gb_per_s", "useful_gb_per_s", "flops_per_byte"),
    *("flops", "bytes", "bytes_materialized", "launch_latency_ns", "peak_bytes", "max_abs_difference"),
    "relative_difference",
)
_CPU_LAUNCHES_NOTHING = "a CPU runs an op in the call itself: nothing is launched"
_COMPILED = "it is compiled code, which the hooks do not see"


class Comparison:
    """A row for each variant, as plain data. What is unknown is None, and `row["unknown"]` says why, by column.

    print(comparison) shows a table; docs/sweeps.md explains the columns.
    """

    def __init__(self, meta: dict[str, Any], rows: list[Row]) -> None:
        self.meta = meta
        self.rows = rows

    def row(self, variant: str) -> Row:
        """The row of one variant. Raises Error for one that was not compared."""
        for row in self.rows:
            if row["variant"] == variant:
                return row
        raise Error(f"{variant!r} was not compared; compared were {', '.join(row['variant'] for row in self.rows)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data: meta and rows."""
        return {"headscope_comparison": 1, "meta": self.meta, "rows": self.rows}

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the comparison as JSON. Raises Error when the file cannot be written."""
        write_text(path, json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n")

    def table(self, *, width: int = 160) -> str:
        """A line a variant that ran, in at most `width` columns, and why the others did not."""
        lines = [list(_COLUMNS)]
        for row in self.rows:
            if row["status"] == "ok":
                lines.append([show(row) for show in _COLUMNS.values()])
        parts = [self._title(), ""]
        parts += [text_table(lines, width), ""] if len(lines) > 1 else []
        parts += [f"{row['variant']}: {row['status']}, {row['reason']}" for row in self.rows if row["status"] != "ok"]
        for row in self.rows:
            parts += [f"{row['variant']} {column}: unknown, {reason}" for column, reason in row["unknown"].items()]
        return "\n".join(parts).rstrip()

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        ran = sum(row["status"] == "ok" for row in self.rows)
        return f"<headscope.Comparison: {ran} of {len(self.rows)} variants ran; print() shows them>"

    def _title(self) -> str:
        meta = self.meta
        shape = (
            f"{meta['batch']}×{meta['heads']}({meta['kv_heads']})×{meta['q_len']}→{meta['kv_len']}×{meta['head_dim']}"
        )
        kind = "causal" if meta["causal"] else "not causal"
        passes = "forward and backward" if meta["backward"] else "forward"
        return f"attention {shape}, {meta['dtype']} on {meta['device']}, {kind}, {passes}"


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "variant": lambda row: str(row["variant"]),
    "median": lambda row: duration(row["time_ns"]),
    "p10": lambda row: duration(row["time_p10_ns"]),
    "p90": lambda row: duration(row["time_p90_ns"]),
    "speed-up": lambda row: "–" if row["speed_up"] is None else f"{row['speed_up']:.2f}×",
    "GB/s": lambda row: rate(row["gb_per_s"]),
    "useful GB/s": lambda row: rate(row["useful_gb_per_s"]),
    "FLOP/B": lambda row: rate(row["flops_per_byte"]),
    "launch": lambda row: duration(row["launch_latency_ns"]),
    "peak": lambda row: quantity(row["peak_bytes"], "B"),
    "max |Δ|": lambda row: rate(row["max_abs_difference"]),
    "relative Δ": lambda row: rate(row["relative_difference"]),
}


def compare(
    batch: int = 16,
    heads: int = 8,
    kv_heads: int | None = None,
    q_len: int = 512,
    kv_len: int | None = None,
    head_dim: int = 64,
    head_dim_v: int | None = None,
    *,
    dtype: Any = "float32",
    causal: bool = True,
    device: Any = "cpu",
    backward: bool = False,
    variants: Any = VARIANTS,
    warmup: int = 3,
    repeats: int = 20,
    min_time_s: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Runs the same attention in each variant: time, traffic, memory, and how far the result is from float64.

    `kv_heads` is `heads`, `kv_len` is `q_len` and `head_dim_v` is `head_dim` unless given. With `causal` the last query
    sees all keys. With `backward` each run is a forward and its backward, and the difference that of the output.
    `warmup`, `repeats` and `min_time_s` are as in `sweep`; flex is compiled while it warms up. `progress` is called
    with (variants done, variants in all). A variant that does not run here is a row with its reason. Raises Error for
    wrong use.
    """
    plan = Plan(warmup, repeats, min_time_s)
    sizes = {"batch": batch, "heads": heads, "q_len": q_len, "head_dim": head_dim}
    whole = {name: positive(name)(value) for name, value in sizes.items()}
    kv_heads = whole["heads"] if kv_heads is None else positive("kv_heads")(kv_heads)
    kv_len = whole["q_len"] if kv_len is None else positive("kv_len")(kv_len)
    head_dim_v = whole["head_dim"] if head_dim_v is None else positive("head_dim_v")(head_dim_v)
    checked_heads(whole["heads"], kv_heads)
    if causal and whole["q_len"] > kv_len:
        raise Error(f"q_len {q_len} is more than kv_len {kv_len}: causal queries are keys too, so pass causal=False")
    names = axis("variants", variants, checked_variant)
    place = checked_device(device)
    geometry = Geometry(
        **whole,
        kv_heads=kv_heads,
        kv_len=kv_len,
        head_dim_v=head_dim_v,
        dtype=DTYPES[checked_dtype(dtype)],
        causal=bool(causal),
        device=place,
    )
    rows = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names))
        rows.append(_row(name, geometry, plan, bool(backward)))
    if progress is not None:
        progress(len(names), len(names))
    _complete(rows)
    meta = {
        **whole,
        "kv_heads": kv_heads,
        "kv_len": kv_len,
        "head_dim_v": head_dim_v,
        "dtype": checked_dtype(dtype),
        "causal": bool(causal),
        "backward": bool(backward),
        "device": str(place),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "warmup": warmup,
        "repeats": repeats,
        "min_time_s": min_time_s,
    }
    return Comparison(meta, rows)


def _row(variant: str, geometry: Geometry, plan: Plan, backward: bool) -> Row:
    row: Row = {"variant": variant, "status": "ok", "reason": None, **dict.fromkeys(_FIGURES), "unknown": {}}
    try:
        with refusals(variant, geometry.device):
            attend = build(variant, geometry)
            measured = measure(_work(attend, geometry, backward), plan)
            absolute, relative = _difference(attend, geometry)
    except Unavailable as reason:
        return {**row, "status": "unavailable", "reason": str(reason)}
    except Exception as error:
        row |= {"status": "oom" if is_out_of_memory(error) else "failed", "reason": first_line(error)}
    else:
        return {**row, **_figures(measured, geometry), "max_abs_difference": absolute, "relative_difference": relative}
    free_memory(geometry.device)
    return row


def _work(attend: Attention, geometry: Geometry, backward: bool) -> Work:
    operands = geometry.operands(requires_grad=backward)
    if not backward:
        return Work(lambda given: attend(*given), geometry.device, lambda: operands)
    shape = (geometry.batch, geometry.heads, geometry.q_len, geometry.head_dim_v)
    gradient = torch.ones(shape, dtype=geometry.dtype, device=geometry.device)

    def run(given: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> object:
        return torch.autograd.grad(attend(*given), given, gradient)

    return Work(run, geometry.device, lambda: operands, grad=True)


def _difference(attend: Attention, geometry: Geometry) -> tuple[float, float]:
    """The largest difference of an output to attention in float64, and the norm of all ÷ the norm of that attention.

    The reference takes one sequence at a time, and no more memory than its scores.
    """
    with torch.inference_mode():
        query, key, value = geometry.operands()
        out = attend(query, key, value)
        allowed = geometry.mask()
        shared = geometry.heads // geometry.kv_heads
        largest, squares, of_reference = 0.0, 0.0, 0.0
        for i in range(geometry.batch):
            wide_query, wide_key, wide_value = (part[i].to("cpu", torch.float64) for part in (query, key, value))
            wide_key, wide_value = (part.repeat_interleave(shared, dim=0) for part in (wide_key, wide_value))
            scores = wide_query @ wide_key.transpose(-1, -2) / math.sqrt(geometry.head_dim)
            if allowed is not None:
                scores.masked_fill_(~allowed.cpu(), -math.inf)
            reference = scores.softmax(-1) @ wide_value
            difference = out[i].to("cpu", torch.float64) - reference
            largest = max(largest, float(difference.abs().max()))
            squares += float(difference.square().sum())
            of_reference += float(reference.square().sum())
    if not math.isfinite(largest) or not math.isfinite(squares):
        raise ArithmeticError("its output has infinite elements, or such that are no number")
    return largest, math.sqrt(squares / of_reference)


def _figures(measured: Measurement, geometry: Geometry) -> Row:
    time, runs, total = measured.latency, measured.figure_runs, measured.figures.total
    figures: Row = {
        "time_ns": time.median,
        "time_p10_ns": time.p10,
        "time_p90_ns": time.p90,
        "runs": time.runs,
        "peak_bytes": measured.run_peak_bytes,
        "launch_latency_ns": _launch_latency(total["launch_latency_ns"]),
        "unknown": {},
    }
    if total["calls"]:
        work = {
            name: None if total[name] is None else total[name] // runs
            for name in ("flops", "bytes", "bytes_materialized")
        }
        figures |= work
    if figures["launch_latency_ns"] is None:
        device_says = measured.figures["diagnostics"]["device_timing"]
        figures["unknown"]["launch_latency_ns"] = (
            _CPU_LAUNCHES_NOTHING if geometry.device.type == "cpu" else f"launches were not timed: {device_says}"
        )
    if figures["peak_bytes"] is None:
        figures["unknown"]["peak_bytes"] = "the allocator did not report to the profiler"
    return figures


def _launch_latency(latency: Any) -> int | None:
    """The median launch of a profile, which is a number or quantiles."""
    value = latency.get("p50") if isinstance(latency, dict) else latency
    return None if value is None else int(value)


def _complete(rows: list[Row]) -> None:
    """What one row takes from another: the speed-up, and the work of a variant that the hooks do not see.

    FLOPs and compulsory bytes are those of the geometry, whichever fused variant runs it.
    """
    ran = [row for row in rows if row["status"] == "ok"]
    eager = next((row for row in ran if row["variant"] == "eager"), None)
    fused = next((row for row in ran if row["variant"] != "eager" and row["bytes"] is not None), None)
    for row in ran:
        if eager is None:
            row["unknown"]["speed_up"] = "eager was not measured"
        else:
            row["speed_up"] = eager["time_ns"] / row["time_ns"]
        if row["bytes"] is None and fused is not None:
            row["flops"], row["bytes"] = fused["flops"], fused["bytes"]
        if row["bytes"] is not None:
            row["useful_gb_per_s"] = row["bytes"] / row["time_ns"]
        if row["bytes"] is None or row["bytes_materialized"] is None:
            missing = [name for name in _FIGURES if row[name] is None and name in _OF_TRAFFIC]
            row["unknown"].update(dict.fromkeys(missing, _COMPILED if row["variant"] == "flex" else "no call was seen"))
        else:
            moved = row["bytes"] + row["bytes_materialized"]
            row["gb_per_s"] = moved / row["time_ns"]
            row["flops_per_byte"] = row["flops"] / moved


_OF_TRAFFIC = ("gb_per_s", "useful_gb_per_s", "flops_per_byte", "flops", "bytes", "bytes_materialized")
