"""What headscope costs on this machine: `python benchmarks/overhead.py [adds|calls|steps] [--rounds N]`.

Prints, asserts nothing. README.md beside it says how to read the tables.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import steps
import torch
from rounds import Samples, interleave, table
from worker import watching

GOALS_NS = {"idle": 400, "memory off": 800, "memory calls": 1200, "device clock": 1000}
#: Rounds between two runs of torch.profiler, whose stop takes long.
SELDOM = 4
#: Processes of each kind, one after the other: where a process has its code and data shifts a call by 0.2 µs.
PROCESSES = 5


#: A libcupti and a driver without a device (tests/support/fake_cupti), for the variant "device clock".
FAKES = os.environ.get("HEADSCOPE_FAKE_CUPTI_DIR")


def environment() -> dict[str, str]:
    if not FAKES:
        return dict(os.environ)
    return {
        **os.environ,
        "HEADSCOPE_CUPTI_LIBRARY": f"{FAKES}/libheadscope_fake_cupti.so",
        "HEADSCOPE_CUDA_DRIVER_LIBRARY": f"{FAKES}/libheadscope_fake_cuda.so",
    }


class Worker:
    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._read()

    def _read(self) -> str:
        line = self._answers.readline()
        if not line:
            raise SystemExit("the measuring process ended; its error is above")
        return line

    def measure(self, op: str, variant: str, calls: int) -> float:
        self._requests.write(json.dumps({"op": op, "variant": variant, "calls": calls}) + "\n")
        self._requests.flush()
        return float(self._read())

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def ratios(samples: Samples, base: str) -> list[list[str]]:
    return [
        [
            name,
            f"{samples.minimum(name) / 1e3:.1f}",
            f"{samples.median(name) / 1e3:.1f}",
            percent(samples.ratio_of_minima(name, base)),
            percent(samples.median_ratio(name, base)),
        ]
        for name in samples.rounds
    ]


RATIO_HEADER = ["variant", "min µs", "median µs", "min ÷ off", "median of ÷ off"]


def adds(rounds: int) -> None:
    worker = Worker("headscope")
    count = 2000

    def block(variant: str) -> float:
        return worker.measure("add", variant, count) * count

    variants = {
        "off": partial(block, "off"),
        "on": partial(block, "memory calls"),
        "torch.profiler": partial(block, "torch.profiler"),
        "off again": partial(block, "off"),
    }
    samples = interleave(variants, rounds, {"torch.profiler": SELDOM})
    worker.close()
    print(table("2,000 adds of 4 elements (no op with a hook)", RATIO_HEADER, ratios(samples, "off")), "\n")


def extras(op: str, workers: dict[str, Worker], rounds: int) -> Samples:
    # Starting a profiler, making rows and the first fold are spread over them, as over a scope of some length.
    calls = 250 if op == "sdpa_training" else 1000

    def measure(worker: str, variant: str) -> Callable[[], float]:
        return partial(workers[worker].measure, op, variant, calls)

    variants = {
        "bare": measure("bare", "off"),
        "bare again": measure("bare again", "off"),
        "idle": measure("headscope", "off"),
        "memory off": measure("headscope", "memory off"),
        "memory calls": measure("headscope", "memory calls"),
        "torch.profiler": measure("bare", "torch.profiler"),
    }
    if FAKES:
        variants["device clock"] = measure("headscope", "device clock")
    return interleave(variants, rounds, {"torch.profiler": SELDOM})


OPS = {
    "sdpa": "scaled_dot_product_attention [1,2,8,16], no gradient",
    "sdpa_training": "scaled_dot_product_attention forward and backward: 2 calls",
    "chain": "bmm → softmax → bmm: 1 call of 3 hooked ops",
    "bmm": "one bmm that belongs to no attention",
    "module": "one call of an attention module that does nothing, with its layer hook",
}


def calls(rounds: int) -> dict[str, Samples]:
    measured = {op: Samples() for op in OPS}
    for _ in range(PROCESSES):
        workers = {"bare": Worker("bare"), "bare again": Worker("bare"), "headscope": Worker("headscope")}
        for op, samples in measured.items():
            samples.extend(extras(op, workers, max(rounds // PROCESSES, 1)))
        for worker in workers.values():
            worker.close()
    for op, samples in measured.items():
        rows = [
            [
                name,
                f"{samples.minimum(name):.0f}",
                f"{samples.extra_of_minima(name, 'bare'):+.0f}",
                f"{samples.median_extra(name, 'bare'):+.0f}",
                f"≤ {GOALS_NS[name]}" if op == "sdpa" and name in GOALS_NS else "",
            ]
            for name in samples.rounds
        ]
        print(table(OPS[op], ["variant", "min ns", "extra of minima", "median extra", "goal"], rows), "\n", flush=True)
    return measured


def extra_of(measured: dict[str, Samples], op: str, variant: str = "memory calls") -> float:
    return max(measured[op].extra_of_minima(variant, "bare"), 0.0)


def one_step(title: str, made: tuple[Any, Callable[[], Any]], measured: dict[str, Samples], rounds: int) -> None:
    model, step = made

    def timed(variant: str) -> float:
        with watching(variant, model):
            begin = time.perf_counter_ns()
            step()
            return float(time.perf_counter_ns() - begin)

    names = {
        "off": "off",
        "on": "memory calls",
        "off again": "off",
        "torch.profiler": "torch.profiler",
        "FlopCounterMode": "FlopCounterMode",
    }
    variants = {name: partial(timed, variant) for name, variant in names.items()}
    samples = interleave(variants, rounds, {"torch.profiler": SELDOM, "FlopCounterMode": SELDOM})
    print(table(title, RATIO_HEADER, ratios(samples, "off")))
    print_computed(measured, steps.hooked_calls(step), samples.minimum("off"))


def print_computed(measured: dict[str, Samples], hooked: tuple[int, int, int], step_ns: float) -> None:
    """The extra cost of a step from its number of calls and the measured extra of each."""
    forwards, backwards, others = hooked
    forward_ns, other_ns = extra_of(measured, "sdpa"), extra_of(measured, "bmm")
    pair_ns = extra_of(measured, "sdpa_training")
    backward_ns = max(pair_ns - forward_ns, 0.0)
    module_ns = extra_of(measured, "module")
    parts = [
        (forwards, "attention calls", forward_ns),
        (backwards, "backward calls", backward_ns),
        (others, "other hooked ops", other_ns),
        (forwards, "module calls", module_ns),
    ]
    extra = sum(count * ns for count, _, ns in parts)
    terms = " + ".join(f"{count} {what} × {ns:.0f} ns" for count, what, ns in parts if count)
    share = 100 * extra / step_ns
    print(f"  computed: {terms} = {extra / 1e3:.1f} µs, {share:.2f} % of the step\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["adds", "calls", "steps", "all"], default="all")
    parser.add_argument("--rounds", type=int, default=30, help="interleaved rounds of each comparison, at least 5")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()  # a collection of all that a model library has imported takes longer than what is measured
    if options.part in ("adds", "all"):
        adds(options.rounds)
    if options.part in ("calls", "steps", "all"):
        measured = calls(options.rounds)
    if options.part in ("steps", "all"):
        one_step("a training step: 4 layers, 256 wide, 2 × 64 tokens", steps.training_step(), measured, options.rounds)
        decode = steps.decode()
        if decode is None:
            print("no decode: pip install transformers")
        else:
            one_step("a decode of 20 tokens: Llama, 4 layers, 256 wide", decode, measured, options.rounds)


if __name__ == "__main__":
    main()
