"""Decoding: what watching it costs, and whether the slope of latency by position is that of a stopwatch.

    python benchmarks/decode.py [TOKENS]

Slope: a stopwatch around scaled_dot_product_attention beside the profiler, in the same run; medians of 50-token bins of
the stopwatch, and a line through them, against `stats["positions"]`. Cost: alternating runs with and without the
profiler, medians of a step, and the profiler's own account of its time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from headscope import AttentionProfiler


def model_of(layers: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=512,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config).eval()


@torch.inference_mode()
def decode(model: LlamaForCausalLM, tokens: int, each_step: Callable[[int], None] = lambda _: None) -> list[float]:
    """Nanoseconds of each step."""
    output = model(torch.ones(1, 8, dtype=torch.long), use_cache=True)
    cache: Any = getattr(output, "cache", None) or output.past_key_values
    assert isinstance(cache, DynamicCache)
    argument = "cache" if hasattr(output, "cache") else "past_key_values"
    times = []
    for step in range(tokens):
        start = time.perf_counter_ns()
        model(torch.ones(1, 1, dtype=torch.long), use_cache=True, **{argument: cache})
        times.append(float(time.perf_counter_ns() - start))
        each_step(step)
    return times


def slope(points: list[tuple[float, float]]) -> float:
    xs, ys = zip(*points, strict=True)
    return statistics.linear_regression(xs, ys).slope


def compare_slopes(tokens: int) -> None:
    model = model_of(layers=2)
    original = functional.scaled_dot_product_attention
    samples: list[tuple[int, int]] = []

    def timed(query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        start = time.perf_counter_ns()
        result = original(query, key, *args, **kwargs)
        samples.append((key.shape[-2], time.perf_counter_ns() - start))
        return result

    functional.scaled_dot_product_attention = timed
    try:
        with AttentionProfiler(model) as profiler:
            decode(model, tokens)
    finally:
        functional.scaled_dot_product_attention = original
    bins: dict[int, list[tuple[int, int]]] = {}
    for keys, elapsed in samples:
        bins.setdefault(keys // 50, []).append((keys, elapsed))
    medians = [
        (statistics.mean(keys for keys, _ in inside), statistics.median(elapsed for _, elapsed in inside))
        for inside in bins.values()
        if len(inside) >= 50
    ]
    stopwatch = 1000 * slope(medians)
    series = next(one for one in profiler.get_stats()["positions"] if one["layer"] is None and one["phase"] == "decode")
    fitted = series["fit"]["ns_per_1000_tokens"]
    print(f"slope over {tokens} tokens: {fitted:,.0f} ns per 1,000 keys, stopwatch {stopwatch:,.0f}", end="")
    print(f", ratio {fitted / stopwatch:.3f}")


def cost(tokens: int, rounds: int = 5) -> None:
    model = model_of(layers=4)
    plain, watched, shares = [], [], []
    decode(model, tokens)
    for _ in range(rounds):
        plain += decode(model, tokens)
        with AttentionProfiler(model) as profiler:
            watched += decode(model, tokens)
        shares.append(profiler.get_stats()["diagnostics"]["overhead_share"])
    ratio = statistics.median(watched) / statistics.median(plain)
    print(f"decode of {tokens} tokens, 4 layers: a watched step takes {ratio:.3f} × a plain one", end="")
    print(f"; own account {100 * statistics.median(shares):.2f} % of the time")


def main() -> None:
    torch.set_num_threads(1)
    compare_slopes(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
    cost(200)


if __name__ == "__main__":
    main()
