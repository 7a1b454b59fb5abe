"""Sweeps: attention, or a model, measured over a grid of sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from headscope._native import Error
from headscope.attention_variants import checked_device, checked_dtype, checked_heads
from headscope.measurement import Plan
from headscope.sweeping.cells import Row, blank_row, run_cell
from headscope.sweeping.grid import Axes, Cell, axis, checked_phase, lay_out, positive
from headscope.sweeping.result import SweepResult
from headscope.sweeping.resume import ResumeFile
from headscope.sweeping.targets import BareAttention, FunctionTarget, Inputs, ModelTarget

__all__ = ["Cell", "SweepResult", "sweep"]

Numbers = int | Iterable[int]
Names = str | Iterable[str]


def sweep(
    target: Callable[..., object] | nn.Module | None = None,
    *,
    batch: Numbers = 1,
    q_len: Numbers | None = None,
    kv_len: Numbers | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    head_dim_v: int | None = None,
    variants: Names | None = None,
    phases: Names = ("prefill",),
    dtype: Any = None,
    device: Any = None,
    inputs: Inputs | None = None,
    warmup: int = 2,
    repeats: int = 10,
    min_time_s: float = 0.0,
    budget_s: float | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepResult:
    """Measures `target` in every cell of a grid, and names the sweet spots and the cliffs.

        result = headscope.sweep(batch=[1, 4, 16], q_len=[128, 512], heads=8, phases=["prefill", "decode"])
        print(result)

    target: None for attention alone, of `heads` × `head_dim` and in each of `variants`; a function, called as
        `target(cell)`; or a module, called as `model(**inputs)` without gradients. A language model of transformers
        needs no `inputs`: it gets random tokens, and a cache that it has filled itself with the tokens before them,
        the same at each run.
    batch, q_len, kv_len: the axes. A prefill has `q_len` causal queries on `kv_len` keys, its own among them: with one
        of the two axes given both lengths are equal. A decode step has one query on `kv_len` keys, or on `q_len` where
        no `kv_len` is given. An encoder has `q_len` queries on as many keys. What cannot be is in `result.left_out`.
    heads, kv_heads, head_dim, head_dim_v: of bare attention: heads must be given, kv_heads is `heads` and head_dim 64
        unless given. Functions find them in the cell. A model has its own.
    variants: of bare attention "eager", "sdpa_math", "sdpa_flash" (the default), "sdpa_efficient", "sdpa_cudnn",
        "flash_attn_2", "flash_attn_3", "flex". Of other targets "as_is" (the default), or a backend of SDPA to force.
    phases: "prefill" (the default), "decode", "encode".
    dtype: "float32" unless given, an axis. A model has its own.
    device: "cpu" unless given. A model has its own.
    inputs: a function from the cell to keyword arguments of the target, made anew for each run outside its time.
    warmup, repeats, min_time_s: runs before the clock starts; timed runs, at least; seconds that they take together,
        at least.
    budget_s: seconds after which no further cell begins; the rest are rows of status "not_run".
    resume: a file that keeps each finished cell, and from which the same sweep goes on, with more values if need be.
    progress: called with (cells done, cells in all).

    Cells that run out of memory, raise or do not run here are rows that say so. Raises Error for wrong use.
    """
    plan = Plan(warmup, repeats, min_time_s)
    _check_budget(budget_s)
    runs, own = _target(target, inputs, device)
    geometry = _geometry(runs, {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "head_dim_v": head_dim_v})
    place = checked_device(own or device or "cpu")
    axes = Axes(
        phases=axis("phases", phases, checked_phase),
        variants=axis("variants", runs.default_variants if variants is None else variants, _check_variant(runs)),
        dtypes=_dtypes(runs, dtype),
        batch=axis("batch", batch, positive("batch")),
        q_len=None if q_len is None else axis("q_len", q_len, positive("q_len")),
        kv_len=None if kv_len is None else axis("kv_len", kv_len, positive("kv_len")),
    )
    cells, left_out = lay_out(axes, geometry, str(place))
    identity = {
        "target": runs.name,
        **geometry,
        "device": str(place),
        "device_name": torch.cuda.get_device_name(place) if place.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "warmup": warmup,
        "repeats": repeats,
        "min_time_s": min_time_s,
    }
    with nullcontext() if resume is None else ResumeFile(resume, identity) as file:
        rows = _run_all(runs, cells, plan, budget_s, file, progress)
    return SweepResult({"sweep": identity}, rows, left_out)


_Target = BareAttention | FunctionTarget | ModelTarget


def _run_all(
    target: _Target,
    cells: list[Cell],
    plan: Plan,
    budget_s: float | None,
    file: ResumeFile | None,
    progress: Callable[[int, int], None] | None,
) -> list[Row]:
    began = time.monotonic()
    rows = []
    for done, cell in enumerate(cells):
        if progress is not None:
            progress(done, len(cells))
        row = None if file is None else file.finished(cell.coordinates)
        if row is None and budget_s is not None and time.monotonic() - began >= budget_s:
            row = blank_row(cell, "not_run", f"the budget of {budget_s:g} s was spent")
        elif row is None:
            row = run_cell(target, cell, plan)
            if file is not None:
                file.add(row)
        rows.append(row)
    if progress is not None:
        progress(len(cells), len(cells))
    return rows


def _target(target: Any, inputs: Inputs | None, device: Any) -> tuple[_Target, torch.device | None]:
    """What runs, and the device that it is on already."""
    if inputs is not None and not callable(inputs):
        raise Error(f"inputs must be a function from a cell to keyword arguments, not {inputs!r}")
    if target is None:
        if inputs is not None:
            raise Error("inputs belong to a target: bare attention makes its own")
        return BareAttention(), None
    if isinstance(target, nn.Module):
        model = ModelTarget(target, inputs)
        if device is not None and model.device is not None and torch.device(device).type != model.device.type:
            raise Error(
                f"the model is on {model.device}, not {device}: move it with model.to(...), or leave device out"
            )
        return model, model.device
    if not callable(target):
        raise Error(f"target must be a function of a cell, a torch.nn.Module or None, not {target!r}")
    return FunctionTarget(target, inputs), None


def _geometry(target: _Target, given: dict[str, int | None]) -> dict[str, int | None]:
    if isinstance(target, ModelTarget):
        named = [name for name, value in given.items() if value is not None]
        if named:
            raise Error(f"a model has its own {', '.join(named)}: leave them out")
        return target.geometry
    geometry = {name: None if value is None else positive(name)(value) for name, value in given.items()}
    if isinstance(target, BareAttention):
        if geometry["heads"] is None:
            raise Error("give heads, the number of query heads of the attention to sweep")
        geometry["kv_heads"] = geometry["kv_heads"] or geometry["heads"]
        geometry["head_dim"] = geometry["head_dim"] or 64
        geometry["head_dim_v"] = geometry["head_dim_v"] or geometry["head_dim"]
    if geometry["heads"] and geometry["kv_heads"]:
        checked_heads(geometry["heads"], geometry["kv_heads"])
    return geometry


def _dtypes(target: _Target, dtype: Any) -> tuple[str | None, ...]:
    if isinstance(target, ModelTarget):
        if dtype is not None:
            raise Error("a model has its own dtype: convert it with model.to(dtype), and leave dtype out")
        return (target.dtype,)
    return axis("dtype", "float32" if dtype is None else dtype, checked_dtype)


def _check_variant(target: _Target) -> Callable[[Any], str]:
    def check(variant: Any) -> str:
        if variant not in target.variants:
            extra = "" if isinstance(target, BareAttention) else "; others are for the target itself to choose"
            raise Error(f"a variant of this target must be one of {', '.join(target.variants)}, not {variant!r}{extra}")
        return str(variant)

    return check


def _check_budget(budget_s: Any) -> None:
    if budget_s is not None and (
        isinstance(budget_s, bool) or not isinstance(budget_s, (int, float)) or not budget_s > 0
    ):
        raise Error(f"budget_s must be a positive number of seconds, not {budget_s!r}")
