"""The device clock on a real GPU. Skips where there is none; HEADSCOPE_REQUIRE_GPU=1 makes that a failure.

Needs torch and headscope alone: the machine may have no pytest.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

try:
    from headscope import AttentionProfiler, capabilities
except ImportError as error:
    raise unittest.SkipTest(f"headscope: skipped, {error}") from error

BATCH, HEADS, LENGTH, DIM = 2, 8, 1024, 64
DENSE_FLOPS = 4 * BATCH * HEADS * LENGTH * LENGTH * DIM  # QKᵀ and PV, 2 FLOPs a multiply and add


def setUpModule() -> None:
    if torch.cuda.is_available():
        torch.cuda.init()
    clock = {item["name"]: item for item in capabilities()}["device_clock"]
    if torch.cuda.is_available() and clock["available"]:
        return
    if os.environ.get("HEADSCOPE_REQUIRE_GPU") == "1":
        raise RuntimeError(f"a GPU is required, and there is none with a device clock: {clock['detail']}")
    print(f"headscope: skipped, no GPU with a device clock: {clock['detail']}")
    raise unittest.SkipTest(clock["detail"])


def inputs(heads: int = HEADS, *, grad: bool = False, dtype: torch.dtype = torch.float16) -> list[torch.Tensor]:
    shapes = [(BATCH, HEADS, LENGTH, DIM), (BATCH, heads, LENGTH, DIM), (BATCH, heads, LENGTH, DIM)]
    return [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=grad) for shape in shapes]


def profiled(program: Callable[[], Any], **options: Any) -> Any:
    """Stats of `program`, after a run that compiles and allocates what the first one does."""
    program()
    torch.cuda.synchronize()
    with AttentionProfiler(device_timing="cupti", keep_calls=1000, **options) as prof:
        program()
    return prof.get_stats()


class DeviceClock(unittest.TestCase):
    def assert_timed(self, stats: Any, calls: int) -> None:
        timing = stats["diagnostics"]["device_timing"]
        assert timing["mode"] == "cupti", timing
        assert stats.total["calls"] == calls, stats["calls"]
        for call in stats["calls"]:
            assert call["time_source"] == "device", call
            assert call["time_ns"] is not None, call
            assert call["time_ns"] > 0, call
            assert call["kernels"], call
        assert stats["diagnostics"]["records_dropped"] == 0

    def test_each_backend_of_sdpa(self) -> None:
        for backend, variant in (
            (SDPBackend.FLASH_ATTENTION, "sdpa_flash"),
            (SDPBackend.EFFICIENT_ATTENTION, "sdpa_efficient"),
            (SDPBackend.CUDNN_ATTENTION, "sdpa_cudnn"),
            (SDPBackend.MATH, "sdpa_math"),
        ):
            with self.subTest(variant):
                q, k, v = inputs()
                try:
                    with sdpa_kernel(backend):
                        sdpa(q, k, v)
                except RuntimeError as error:
                    self.skipTest(f"this torch has no {variant} here: {error}")
                with sdpa_kernel(backend):
                    stats = profiled(lambda q=q, k=k, v=v: sdpa(q, k, v))
                self.assert_timed(stats, 1)
                assert stats["calls"][0]["variant"] == variant
                assert stats["calls"][0]["flops"] == DENSE_FLOPS

    def test_gqa(self) -> None:
        q, k, v = inputs(heads=2)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            stats = profiled(lambda: sdpa(q, k, v, enable_gqa=True))
        self.assert_timed(stats, 1)
        assert stats["calls"][0]["kv_heads"] == 2

    def test_causal(self) -> None:
        q, k, v = inputs()
        stats = profiled(lambda: sdpa(q, k, v, is_causal=True))
        self.assert_timed(stats, 1)
        pairs = LENGTH * (LENGTH + 1) // 2
        assert stats["calls"][0]["flops"] == 4 * BATCH * HEADS * pairs * DIM

    def test_backward(self) -> None:
        q, k, v = inputs(grad=True)
        stats = profiled(lambda: sdpa(q, k, v).sum().backward())
        self.assert_timed(stats, 2)
        assert [call["direction"] for call in stats["calls"]] == ["forward", "backward"]
        forward, backward = stats["calls"]
        assert backward["time_ns"] > forward["time_ns"]

    def test_eager_attention_has_glue(self) -> None:
        q, k, v = inputs()

        def attend() -> torch.Tensor:
            scores = q @ k.transpose(-1, -2)
            return torch.softmax(scores * DIM**-0.5, dim=-1) @ v

        stats = profiled(attend)
        self.assert_timed(stats, 1)
        row = stats["attention_breakdown"][0]
        assert row["variant"] == "eager"
        assert row["glue_ns"] > 0

    def test_cuda_graph(self) -> None:
        q, k, v = inputs()
        sdpa(q, k, v)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        replays = 5
        with AttentionProfiler(device_timing="cupti", keep_calls=100) as prof:
            with torch.cuda.graph(graph):
                sdpa(q, k, v)
            for _ in range(replays):
                graph.replay()
        stats = prof.get_stats()
        assert stats["diagnostics"]["calls_captured"] == 1, stats["diagnostics"]
        self.assert_timed(stats, replays)
        assert stats.total["flops"] == replays * DENSE_FLOPS

        # A second session: correlation ids of graph launches were wrong there before CUPTI 13.1 Update 1.
        with AttentionProfiler(device_timing="cupti", keep_calls=100) as again:
            graph.replay()
        self.assert_timed(again.get_stats(), 1)

    def test_graph_captured_before(self) -> None:
        q, k, v = inputs()
        sdpa(q, k, v)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            sdpa(q, k, v)
        with AttentionProfiler(device_timing="cupti") as prof:
            graph.replay()
        assert prof.get_stats()["diagnostics"]["kernels_of_unknown_graphs"] > 0

    def test_events_agree_with_kernels(self) -> None:
        q, k, v = inputs()
        sdpa(q, k, v)
        with AttentionProfiler(device_timing="events", keep_calls=10) as prof:
            for _ in range(10):
                sdpa(q, k, v)
        stats = prof.get_stats()
        assert stats["diagnostics"]["device_timing"]["mode"] == "events"
        kernels = profiled(lambda: sdpa(q, k, v))["calls"][0]["time_ns"]
        for call in stats["calls"]:
            assert call["time_source"] == "events"
            # Events take in the gaps around the kernels, and never less than these.
            assert call["time_ns"] > 0.8 * kernels, (call, kernels)

    def test_many_sessions(self) -> None:
        q, k, v = inputs()
        for _ in range(10):
            self.assert_timed(profiled(lambda: sdpa(q, k, v)), 1)

    def test_a_long_run_loses_nothing(self) -> None:
        q, k, v = (torch.randn(1, 1, 16, 64, device="cuda", dtype=torch.float16) for _ in range(3))
        calls = 20_000
        with AttentionProfiler(device_timing="cupti") as prof:
            for _ in range(calls):
                sdpa(q, k, v)
        stats = prof.get_stats()
        assert stats.total["calls"] == calls
        assert stats["diagnostics"]["calls_untimed"] == 0
        assert stats["diagnostics"]["records_dropped"] == 0


class BesideTorchProfiler(unittest.TestCase):
    """In order of their names: torch.profiler's first use finds CUPTI free or gets nothing for life."""

    def kernels(self, prof: Any) -> int:
        return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in prof.events())

    def test_1_its_first_use_inside_our_session(self) -> None:
        q, k, v = inputs()
        sdpa(q, k, v)
        with AttentionProfiler(device_timing="cupti", keep_calls=100) as ours:
            sdpa(q, k, v)
            with torch.profiler.profile() as theirs:
                sdpa(q, k, v)
            sdpa(q, k, v)
        stats = ours.get_stats()
        assert self.kernels(theirs) > 0, "torch.profiler saw no kernels"
        times = [call["time_ns"] for call in stats["calls"]]
        assert len(times) == 3
        assert None not in times, stats["diagnostics"]
        # One kernel of one shape, by two clocks.
        assert max(times) / min(times) < 3, times

    def test_2_ours_after_it(self) -> None:
        q, k, v = inputs()
        with torch.profiler.profile() as theirs:
            sdpa(q, k, v)
        assert self.kernels(theirs) > 0
        stats = profiled(lambda: sdpa(q, k, v))
        assert stats["diagnostics"]["device_timing"]["mode"] == "cupti", stats["diagnostics"]
        assert stats["calls"][0]["time_ns"] is not None

    def test_3_it_after_ours(self) -> None:
        q, k, v = inputs()
        profiled(lambda: sdpa(q, k, v))
        with torch.profiler.profile() as theirs:
            sdpa(q, k, v)
        assert self.kernels(theirs) > 0

    def test_4_ours_starts_inside_it(self) -> None:
        q, k, v = inputs()
        ours = AttentionProfiler(device_timing="cupti", keep_calls=100)
        with torch.profiler.profile() as theirs:
            ours.start()
            sdpa(q, k, v)
        sdpa(q, k, v)
        ours.stop()
        assert self.kernels(theirs) > 0
        assert None not in [call["time_ns"] for call in ours.get_stats()["calls"]]


if __name__ == "__main__":
    unittest.main()
