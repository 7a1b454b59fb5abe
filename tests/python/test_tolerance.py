"""What cheaper settings do to heads, against attention with those settings computed here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from headscope import AttentionProfiler, Error

HEADS, KV_HEADS, LENGTH, DIM = 4, 2, 96, 16


def rounded(x: torch.Tensor, name: str) -> torch.Tensor:
    """[heads, tokens, dim]; the scales that docs/patterns.md tells."""
    if name == "bfloat16":
        return x.bfloat16().float()
    if name == "int8_per_token":
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round() * scale
    dtype, most = {"float8_e4m3": (torch.float8_e4m3fn, 448), "float8_e5m2": (torch.float8_e5m2, 57344)}[name]
    scale = x.abs().amax((-1, -2), keepdim=True) / most
    return (x / scale).to(dtype).float() * scale


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    k, v = (t.repeat_interleave(q.shape[0] // t.shape[0], 0) for t in (k, v))
    scores = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).masked_fill(~allowed, -math.inf)
    return scores.softmax(-1) @ v


def allowed_by(setting: str, q: torch.Tensor, k: torch.Tensor, causal: torch.Tensor) -> torch.Tensor:
    size = int(setting.rsplit("_", 1)[1])
    places = torch.arange(LENGTH)
    near = (places[:, None] - places[None]).abs() < size
    if setting.startswith("window"):
        return (causal & near).expand(HEADS, -1, -1)
    if setting.startswith("sink"):
        return (causal & (near | (places < 4)[None])).expand(HEADS, -1, -1)
    k = k.repeat_interleave(HEADS // KV_HEADS, 0)
    scores = (q @ k.transpose(1, 2) / math.sqrt(DIM)).masked_fill(~causal, -math.inf)
    kept = torch.zeros(HEADS, LENGTH, LENGTH, dtype=torch.bool)
    return kept.scatter(2, scores.topk(min(size, LENGTH), -1).indices, True) & causal


def profiled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> dict[str, Any]:
    with AttentionProfiler(patterns=1, **{"tolerance": 0.01, **options}) as profiler:
        scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    stats = profiler.get_stats()
    assert stats.diagnostics["hook_errors"] == 0
    section: dict[str, Any] = stats["tolerance"]
    return section


def test_errors_and_bytes_equal_those_of_attention_with_each_setting() -> None:
    q, k, v = torch.randn(1, HEADS, LENGTH, DIM), *torch.randn(2, 1, KV_HEADS, LENGTH, DIM)
    section = profiled(q * 2, k, v, pattern_rows=LENGTH)
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    one_q, one_k, one_v = q[0] * 2, k[0], v[0]
    reference = attend(one_q, one_k, one_v, causal)
    kv_bytes = 2 * KV_HEADS * LENGTH * DIM * 4 / HEADS
    assert section["bound"] == 0.01
    assert section["calls"] == 1
    assert len(section["heads"]) == HEADS
    for row in section["heads"]:
        assert row["rows"] == LENGTH
        assert row["kv_bytes"] == kv_bytes
        for setting, error in row["errors"].items():
            if setting.startswith(("kv_", "qkv_")):
                which, name = setting.split("_", 1)
                out = attend(
                    rounded(one_q, name) if which == "qkv" else one_q,
                    rounded(one_k, name), rounded(one_v, name), causal,
                )  # fmt: skip
                new = {"bfloat16": 2 / 4, "float8_e4m3": 1 / 4, "float8_e5m2": 1 / 4}.get(name, (DIM + 4) / (DIM * 4))
                saved = kv_bytes * (1 - new)
            else:
                kept = allowed_by(setting, one_q, one_k, causal)
                out = attend(one_q, one_k, one_v, kept)
                share = float(kept[row["head"]].sum() / causal.sum())
                saved = kv_bytes * (1 - share) * (0.5 if setting.startswith("top") else 1.0)
            head = row["head"]
            expected = float((out[head] - reference[head]).norm() / reference[head].norm())
            assert error == pytest.approx(expected, rel=1e-3, abs=1e-6), setting
            assert row["saved_bytes"][setting] == pytest.approx(saved, rel=1e-6, abs=1e-6), setting


def test_cheapest_saves_most_within_the_bound() -> None:
    q, k, v = torch.randn(1, HEADS, LENGTH, DIM), *torch.randn(2, 1, KV_HEADS, LENGTH, DIM)
    for bound in (1e-6, 0.004, 0.05, 0.9):
        for row in profiled(q, k, v, tolerance=bound)["heads"]:
            fitting = [
                (row["saved_bytes"][name], name)
                for name, error in row["errors"].items()
                if error <= bound and row["saved_bytes"][name] > 0
            ]
            if not fitting:
                assert row["cheapest"] is None
            else:
                assert row["cheapest"]["saved_bytes"] == max(fitting)[0]
                assert row["cheapest"]["error"] <= bound


def test_heads_differ_as_they_were_made_to() -> None:
    # Head 0 looks at its own key alone, head 1 at all keys alike: a window is enough for the first one only.
    q, k, v = (torch.zeros(1, 2, LENGTH, LENGTH) for _ in range(3))
    q[0, 0] = k[0, 0] = 100 * torch.eye(LENGTH)
    v.normal_()
    with AttentionProfiler(patterns=1, tolerance=0.01) as profiler:
        scaled_dot_product_attention(q, k, v)
    sharp, flat = profiler.get_stats()["tolerance"]["heads"]
    assert sharp["errors"]["window_64"] < 1e-6 < 0.1 < flat["errors"]["window_64"]
    assert sharp["errors"]["top_16"] < 1e-6 < 0.1 < flat["errors"]["top_16"]
    assert "at an error of 1.0% heads do with:" in str(profiler.get_stats())


def test_masked_rows_and_padding() -> None:
    q, k, v = torch.randn(3, 2, 2, 40, 8)
    mask = torch.ones(2, 1, 40, 40, dtype=torch.bool)
    mask[1, :, :, :30] = False
    mask[0, :, 5] = False  # this row admits nothing
    with AttentionProfiler(patterns=1, tolerance=0.01) as profiler:
        scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for row in profiler.get_stats()["tolerance"]["heads"]:
        assert all(math.isfinite(error) for error in row["errors"].values())
        assert row["errors"]["window_64"] == row["errors"]["top_64"] == 0.0


def test_bfloat16_model_saves_nothing_by_bfloat16() -> None:
    q, k, v = torch.randn(3, 1, 2, 32, 8, dtype=torch.bfloat16)
    with AttentionProfiler(patterns=1, tolerance=0.5) as profiler:
        scaled_dot_product_attention(q, k, v)
    for row in profiler.get_stats()["tolerance"]["heads"]:
        assert row["errors"]["kv_bfloat16"] == 0.0
        assert row["saved_bytes"]["kv_bfloat16"] == 0.0
        assert row["saved_bytes"]["kv_float8_e4m3"] == row["kv_bytes"] / 2


def test_off_by_default_and_bad_values() -> None:
    with AttentionProfiler(patterns=1) as profiler:
        q = torch.randn(1, 2, 8, 4)
        scaled_dot_product_attention(q, q, q)
    stats = profiler.get_stats()
    assert stats["tolerance"] is None
    assert "option tolerance" in stats["meta"]["absent_sections"]["tolerance"]
    with pytest.raises(Error, match="needs Options::patterns"):
        AttentionProfiler(tolerance=0.1)
    for bad in (-0.1, 2.0, math.nan):
        with pytest.raises(Error, match="tolerance"):
            AttentionProfiler(patterns=1, tolerance=bad)
