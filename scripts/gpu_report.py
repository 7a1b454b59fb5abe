#!/usr/bin/env python3
"""Measures attention on this GPU and what the device clock costs and finds there: one JSON and one text report.

    python3 scripts/gpu_report.py --json FILE --text FILE

Times of calls are those of their kernels (CUPTI). Costs are wall time for each call of a loop that launches and does
not wait, so that they show where the host is the bottleneck; they are ratios within one run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

import headscope
from headscope import AttentionProfiler

#: name, batch, heads, KV heads, queries, keys, head size, causal
SHAPES = [
    ("prefill 1k", 4, 16, 16, 1024, 1024, 64, True),
    ("prefill 4k", 1, 32, 32, 4096, 4096, 128, True),
    ("prefill 4k, GQA 8", 1, 32, 4, 4096, 4096, 128, True),
    ("encode 512", 16, 12, 12, 512, 512, 64, False),
    ("decode 4k", 32, 32, 32, 1, 4096, 128, False),
    ("decode 4k, GQA 8", 32, 32, 4, 1, 4096, 128, False),
]
BACKENDS = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_math": SDPBackend.MATH,
}
REPEATS = 20
LAUNCHES = 5_000


def device_clock() -> dict[str, Any]:
    found = {item["name"]: item for item in headscope.capabilities()}
    return dict(found["device_clock"])


def environment() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "headscope": headscope.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "device_clock": device_clock(),
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        facts["gpu"] = properties.name
        facts["compute_capability"] = f"{properties.major}.{properties.minor}"
        facts["multiprocessors"] = properties.multi_processor_count
        with contextlib.suppress(OSError):
            facts["driver"] = subprocess.run(
                ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
    return facts


def tensors(shape: tuple[Any, ...]) -> list[torch.Tensor]:
    _, batch, heads, kv_heads, q_len, kv_len, dim, _ = shape
    sizes = [(batch, heads, q_len, dim), (batch, kv_heads, kv_len, dim), (batch, kv_heads, kv_len, dim)]
    return [torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in sizes]


def matrix() -> list[dict[str, Any]]:
    """Each shape by each backend, forward."""
    rows = []
    for shape in SHAPES:
        q, k, v = tensors(shape)
        for variant, backend in BACKENDS.items():
            row: dict[str, Any] = {"shape": shape[0], "variant": variant}
            rows.append(row)

            def call(q: Any = q, k: Any = k, v: Any = v, shape: Any = shape, backend: Any = backend) -> Any:
                with sdpa_kernel(backend):
                    return sdpa(q, k, v, is_causal=shape[7], enable_gqa=shape[2] != shape[3])

            try:
                call()
                call()
                torch.cuda.synchronize()
            except RuntimeError as error:
                row["skipped"] = str(error).splitlines()[0]
                continue
            with AttentionProfiler(device_timing="cupti", keep_calls=REPEATS) as prof:
                for _ in range(REPEATS):
                    call()
            calls = prof.get_stats()["calls"]
            times = [one["time_ns"] for one in calls if one["time_ns"]]
            if not times:
                row["skipped"] = "no call has a time: " + str(prof.get_stats()["diagnostics"]["device_timing"])
                continue
            median = statistics.median(times)
            row.update(
                measured_variant=calls[0]["variant"],
                calls=len(times),
                median_us=median / 1e3,
                spread=(max(times) - min(times)) / median,
                gb_per_s=calls[0]["bytes"] / median if calls[0]["bytes"] else None,
                tflop_per_s=calls[0]["flops"] / median / 1e3 if calls[0]["flops"] else None,
                kernels=[kernel["name"][:80] for kernel in calls[0]["kernels"]],
            )
    return rows


def launch_costs() -> dict[str, float]:
    """Microseconds of the host for each call, by who watches."""
    q, k, v = (torch.randn(1, 1, 16, 64, device="cuda", dtype=torch.float16) for _ in range(3))

    def loop() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            sdpa(q, k, v)
        took = time.perf_counter() - begin
        torch.cuda.synchronize()
        return took / LAUNCHES * 1e6

    @contextlib.contextmanager
    def nobody() -> Iterator[None]:
        yield

    loop()
    watchers: dict[str, Callable[[], Any]] = {
        "nobody": nobody,
        "host clock": lambda: AttentionProfiler(device_timing="host"),
        "device clock": lambda: AttentionProfiler(device_timing="cupti"),
        "device clock, memory off": lambda: AttentionProfiler(device_timing="cupti", memory="off"),
        "nobody, after the device clock": nobody,
        "torch.profiler": lambda: torch.profiler.profile(),
        "nobody, after torch.profiler": nobody,
    }
    costs: dict[str, float] = {}
    for name, watcher in watchers.items():
        best = float("inf")
        for _ in range(3):
            with watcher():
                best = min(best, loop())
        costs[name] = best
    return costs


def cupti_clock() -> dict[str, Any]:
    """cuptiGetTimestamp less the host's CLOCK_REALTIME, before and after torch.profiler."""
    path = device_clock()["detail"].partition("(version ")[2].partition(", ")[2].partition(")")[0]
    library = ctypes.CDLL(path)

    def lead_ns() -> int:
        ticks = ctypes.c_uint64()
        code = library.cuptiGetTimestamp(ctypes.byref(ticks))
        if code != 0:
            raise RuntimeError(f"cuptiGetTimestamp gave {code}")
        return ticks.value - time.time_ns()

    before = lead_ns()
    with torch.profiler.profile():
        torch.ones(8, device="cuda").sum()
    return {"lead_ns_before": before, "lead_ns_after_torch_profiler": lead_ns()}


def beside_torch_profiler() -> dict[str, Any]:
    """One kernel by our session, by torch.profiler's records, and by our session again."""
    q, k, v = tensors(SHAPES[0])
    sdpa(q, k, v)
    with AttentionProfiler(device_timing="cupti", keep_calls=30) as prof:
        for _ in range(10):
            sdpa(q, k, v)
        with torch.profiler.profile() as theirs:
            for _ in range(10):
                sdpa(q, k, v)
        for _ in range(10):
            sdpa(q, k, v)
    calls = [call["time_ns"] for call in prof.get_stats()["calls"]]
    groups = {"before": calls[:10], "during": calls[10:20], "after": calls[20:]}
    result: dict[str, Any] = {
        name: statistics.median(times) / 1e3 if None not in times and times else None for name, times in groups.items()
    }
    result["kernels_seen_by_torch_profiler"] = sum(
        event.device_type == torch.autograd.DeviceType.CUDA for event in theirs.events()
    )
    return result


def million_launches() -> dict[str, Any]:
    q, k, v = (torch.randn(1, 1, 16, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    launches = 1_000_000
    begin = time.perf_counter()
    with AttentionProfiler(device_timing="cupti", memory="off") as prof:
        done = 0
        while done < launches and time.perf_counter() - begin < 40:
            for _ in range(1000):
                sdpa(q, k, v)
            done += 1000
    stats = prof.get_stats()
    keys = ("records_dropped", "calls_untimed", "kernels_unmatched", "overhead_share")
    return {"calls": stats.total["calls"], "launched": done, **{key: stats["diagnostics"][key] for key in keys}}


#: In this order: the clock of CUPTI is asked before torch.profiler runs for the first time.
PARTS: dict[str, Callable[[], Any]] = {
    "cupti_clock": cupti_clock,
    "matrix": matrix,
    "beside_torch_profiler": beside_torch_profiler,
    "launch_costs_us": launch_costs,
    "million_launches": million_launches,
}


def as_text(report: dict[str, Any]) -> str:
    lines = [f"{key:<20} {value}" for key, value in report["environment"].items()]
    for row in report.get("matrix") or []:
        head = f"{row['shape']:<20} {row['variant']:<16}"
        if "skipped" in row:
            lines.append(f"{head} skipped: {row['skipped'][:80]}")
            continue
        rates = [
            f"{row[key]:8.1f} {unit}" if row[key] else ""
            for key, unit in (("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s"))
        ]
        lines.append(f"{head} {row['median_us']:9.1f} µs ± {row['spread']:4.0%} {' '.join(rates)}")
    for part in PARTS:
        if part != "matrix" and part in report:
            lines.append(f"{part}: {json.dumps(report[part])}")
    lines += [f"FAILED {name}: {error.splitlines()[-1]}" for name, error in report["failures"].items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    options = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.init()
    report: dict[str, Any] = {"environment": environment(), "failures": {}}

    def save() -> None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        options.text.write_text(as_text(report))

    if not report["environment"]["device_clock"]["available"]:
        report["skipped"] = report["environment"]["device_clock"]["detail"]
        save()
        print(f"nothing measured: {report['skipped']}")
        return int(os.environ.get("HEADSCOPE_REQUIRE_GPU") == "1")
    for name, part in PARTS.items():
        try:
            report[name] = part()
        except Exception:
            report["failures"][name] = traceback.format_exc()
        save()  # what was measured is there though a later part hangs
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
