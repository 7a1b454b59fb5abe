"""A long training run takes no more memory than a short one."""

from __future__ import annotations

import json

import pytest

# In a process of its own: what other tests left in the allocator's pools would hide a leak, or look like one.
PROGRAM = """
import ctypes, gc, json, os

import torch
from torch.nn.functional import scaled_dot_product_attention

from headscope import AttentionProfiler

LEAK = int(os.environ["LEAK"])
WARM_UP = 6_000


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
mallinfo2.restype = Mallinfo2


def in_use():
    gc.collect()
    info = mallinfo2()
    # Allocated from the heap and by mmap, by Python too (PYTHONMALLOC=malloc); free memory is not in it.
    return info.uordblks + info.hblkhd


torch.set_num_threads(1)
weight = torch.randn(8, 8, requires_grad=True)
x = torch.randn(1, 2, 4, 8)
leaked = []


def train(profiler, steps):
    for _ in range(steps):
        y = x @ weight
        scaled_dot_product_attention(y, y, y).sum().backward()
        weight.grad = None
        profiler.step()
        if LEAK:
            leaked.append(bytes(LEAK))


with AttentionProfiler(per_head=True) as profiler:
    train(profiler, WARM_UP)
    before = in_use()
    train(profiler, 10_000 - WARM_UP)
    after = in_use()
    stats = profiler.get_stats()
points = stats.steps
print(json.dumps({
    "growth": after - before,
    "points": len(points),
    "steps": sum(point["steps"] for point in points),
    "calls": sum(point["calls"] for point in points),
    "flops": sum(int(point["flops"]) for point in points),
    "total": {"calls": stats.total["calls"], "flops": int(stats.total["flops"])},
}))
"""


@pytest.fixture
def long_run(run_python, monkeypatch):
    monkeypatch.setenv("PYTHONMALLOC", "malloc")

    def run(leak):
        monkeypatch.setenv("LEAK", str(leak))
        finished = run_python(PROGRAM)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return run


def test_ten_thousand_steps_keep_memory_flat(long_run):
    seen = long_run(leak=0)
    control = long_run(leak=64)

    # Tables of fixed size fill in the first steps: points of the series, and links to 4,096 saved storages.
    assert seen["growth"] < 4_000 * 16
    assert control["growth"] > 4_000 * 64
    assert seen["points"] <= 512
    assert seen["steps"] == 10_000
    assert {key: seen[key] for key in ("calls", "flops")} == seen["total"]
    assert seen["total"]["calls"] == 20_000
