"""One cell of a sweep: run it, and make a row of what came of it, whatever that is."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from headscope.attention_variants import Unavailable, first_line, refusals
from headscope.measurement import Measurement, Plan, Work, free_memory, is_out_of_memory, measure
from headscope.sweeping.grid import Cell

#: Columns that only a cell that ran to its end fills.
FIGURES = (
    *("latency_ns", "latency_p10_ns", "latency_p90_ns", "runs", "tokens_per_s"),
    *("attention_ns", "attention_calls", "flops", "bytes", "bytes_materialized", "gb_per_s", "tflop_per_s"),
    *("flops_per_byte", "peak_bytes", "memory_bytes", "kv_bytes", "variants_seen", "phases_seen", "kv_len_seen"),
    "time_source",
)

#: status of a row: "ok"; "oom", memory was not enough; "failed", it raised; "unavailable", the variant does not run
#: here; "not_run", the budget was spent.
Row = dict[str, Any]


class Target(Protocol):
    """What runs in a cell."""

    @property
    def name(self) -> str: ...

    def work(self, cell: Cell) -> tuple[Work, int]: ...


def run_cell(target: Target, cell: Cell, plan: Plan) -> Row:
    """The row of one cell. Running out of memory, refusals and exceptions of the target become its `status`."""
    device = torch.device(cell.device)
    try:
        with refusals(cell.variant, device):
            _refuse_what_ends_the_process(cell)
            work, held = target.work(cell)
            measured = measure(work, plan)
        return {**blank_row(cell, "ok", None), **_figures(cell, measured, held)}
    except Unavailable as reason:
        return blank_row(cell, "unavailable", str(reason))
    except Exception as error:
        status = "oom" if is_out_of_memory(error) else "failed"
        text = first_line(error)
        said = text if status == "oom" or text == type(error).__name__ else f"{type(error).__name__}: {text}"
        row = blank_row(cell, status, said)
    # Out of the handler, so that the traceback holds no tensors any more.
    free_memory(device)
    return row


def blank_row(cell: Cell, status: str, reason: str | None) -> Row:
    """A row without figures, and why there are none."""
    return {**cell.to_dict(), "status": status, "reason": reason, **dict.fromkeys(FIGURES)}


def _figures(cell: Cell, measured: Measurement, held: int) -> Row:
    stats, runs, latency = measured.figures, measured.figure_runs, measured.latency
    total, rows = stats.total, stats.attention_breakdown
    seen = total["calls"] > 0
    attention_ns = _median([step["attention_ns"] for step in stats["steps"] or ()]) if seen else None
    flops, needed, extra = (
        _per_run(total[name], runs) if seen else None for name in ("flops", "bytes", "bytes_materialized")
    )
    moved = None if needed is None or extra is None else needed + extra
    peak = measured.run_peak_bytes
    return {
        "latency_ns": latency.median,
        "latency_p10_ns": latency.p10,
        "latency_p90_ns": latency.p90,
        "runs": latency.runs,
        "tokens_per_s": _ratio(cell.batch * cell.q_len * 1e9, latency.median),
        "attention_ns": attention_ns,
        "attention_calls": _per_run(total["calls"], runs),
        "flops": flops,
        "bytes": needed,
        "bytes_materialized": extra,
        "gb_per_s": _ratio(moved, attention_ns),
        "tflop_per_s": None if total["tflop_per_s"] is None else _ratio(flops, attention_ns, 1e3),
        "flops_per_byte": _ratio(flops, moved),
        "peak_bytes": total["peak_bytes"] if seen else None,
        "memory_bytes": None if peak is None else held + peak,
        "kv_bytes": _kv_bytes(rows),
        "variants_seen": sorted({row["variant"] for row in rows}),
        "phases_seen": sorted({row["phase"] for row in rows}),
        "kv_len_seen": sorted({row["kv_len"] for row in rows if isinstance(row["kv_len"], int)}),
        "time_source": total["time_ns"]["source"] if seen and total["time_ns"] else None,
    }


_ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def _kv_bytes(rows: list[Row]) -> int | None:
    """Bytes of the keys and values that the layers attend to, each layer's once; None where a row's shapes vary."""
    layers: dict[str, int] = {}
    for row in rows:
        size = _ELEMENT_BYTES.get(row["dtype"])
        factors = [row["batch"], row["kv_len"], row["model_kv_heads"] or row["kv_heads"]]
        dims = [row["head_dim"], row["head_dim_v"]]
        if size is None or not all(isinstance(factor, int) for factor in (*factors, *dims)):
            return None
        batch, kv_len, kv_heads = factors
        layers[row["layer"]] = max(layers.get(row["layer"], 0), batch * kv_len * kv_heads * sum(dims) * size)
    return sum(layers.values()) if layers else None


def _refuse_what_ends_the_process(cell: Cell) -> None:
    """Raises MemoryError for bare attention on a CPU whose score matrix alone is larger than the memory that is free.

    Linux grants such memory and kills the process once it is touched, which no exception tells.
    """
    if cell.variant not in ("eager", "sdpa_math") or torch.device(cell.device).type != "cpu":
        return
    size = _ELEMENT_BYTES.get(cell.dtype or "")
    if size is None or cell.heads is None:
        return
    scores = cell.batch * cell.heads * cell.q_len * cell.kv_len * size
    free = _free_bytes()
    if free is not None and scores > free:
        raise MemoryError(f"not tried: its scores alone are {scores:,} bytes, and {free:,} are free")


def _free_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    return next((int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:"), None)


def _per_run(value: int | None, runs: int) -> int | None:
    return None if value is None else value // runs


def _median(values: list[int | None]) -> int | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None


def _ratio(value: float | None, by: float | None, scale: float = 1.0) -> float | None:
    return None if value is None or not by else value / by / scale
