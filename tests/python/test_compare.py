"""Comparison of implementations of attention."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import headscope
from headscope import Error
from headscope.cli import main
from helpers.work import forward_flops, fused_backward_flops

SMALL: dict[str, Any] = {"batch": 2, "heads": 4, "q_len": 16, "head_dim": 8, "repeats": 3, "warmup": 1}
HERE = ("eager", "sdpa_math", "sdpa_flash")
ELSEWHERE = ("sdpa_efficient", "sdpa_cudnn", "flash_attn_2", "flash_attn_3")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_each_variant_is_a_row_and_what_is_missing_has_its_reason():
    found = headscope.compare(**SMALL, variants=[*HERE, *ELSEWHERE])

    assert [row["variant"] for row in found.rows] == [*HERE, *ELSEWHERE]
    for name in HERE:
        row = found.row(name)
        assert row["status"] == "ok"
        assert row["flops"] == forward_flops(2 * 4 * (16 * 17 // 2), 8)
        assert row["bytes"] == 4 * 2 * 4 * 16 * 8 * 4 + (16 * 16 if name == "eager" else 0)
        assert row["gb_per_s"] == pytest.approx((row["bytes"] + row["bytes_materialized"]) / row["time_ns"])
        assert row["speed_up"] == pytest.approx(found.row("eager")["time_ns"] / row["time_ns"])
        assert row["relative_difference"] < 1e-5
        assert row["launch_latency_ns"] is None
        assert "nothing is launched" in row["unknown"]["launch_latency_ns"]
        assert row["peak_bytes"] > 0
    for name in ELSEWHERE:
        row = found.row(name)
        assert row["status"] == "unavailable"
        assert row["time_ns"] is None
        assert "CUDA" in row["reason"] or "No module named" in row["reason"]
    assert "No viable backend" in found.row("sdpa_cudnn")["reason"]
    assert "sdpa_cudnn: unavailable" in str(found)


@pytest.mark.parametrize("causal", [True, False])
def test_results_agree_with_float64_for_shared_heads_and_rectangles(causal):
    found = headscope.compare(
        **{**SMALL, "q_len": 6}, kv_len=20, kv_heads=2, head_dim_v=8, causal=causal, dtype="float64", variants=HERE
    )

    assert all(row["max_abs_difference"] < 1e-13 for row in found.rows), found


def test_half_precision_differs_more():
    found = headscope.compare(**SMALL, dtype=torch.bfloat16, variants=["eager", "sdpa_flash"])

    assert all(1e-4 < row["relative_difference"] < 0.05 for row in found.rows)


def test_backward_counts_both_passes():
    found = headscope.compare(**SMALL, backward=True, variants=["sdpa_flash"])

    pairs = 2 * 4 * (16 * 17 // 2)
    assert found.rows[0]["flops"] == forward_flops(pairs, 8) + fused_backward_flops(pairs, 8)
    assert found.rows[0]["speed_up"] is None
    assert found.rows[0]["unknown"]["speed_up"] == "eager was not measured"


def test_flex_is_compiled_and_its_traffic_unknown(private_cache):
    found = headscope.compare(**SMALL, variants=["sdpa_flash", "flex"])

    row = found.row("flex")
    if row["status"] != "ok":
        pytest.skip(f"flex does not run here: {row['reason']}")
    assert row["relative_difference"] < 1e-5
    assert row["bytes"] == found.row("sdpa_flash")["bytes"]
    assert row["bytes_materialized"] is None
    assert "compiled" in row["unknown"]["gb_per_s"]


def test_what_flex_refuses_is_told_in_its_own_words(private_cache):
    found = headscope.compare(**SMALL, variants=["flex"], backward=True)

    assert found.rows[0]["status"] == "unavailable"
    assert "backward on CPU" in found.rows[0]["reason"]


def test_a_variant_that_breaks_does_not_lose_the_others(monkeypatch):
    def lack(geometry: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("headscope.attention_variants._eager", lack)
    found = headscope.compare(**SMALL, variants=["eager", "sdpa_flash"])

    assert [row["status"] for row in found.rows] == ["oom", "ok"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"q_len": 0}, "positive"),
        ({"kv_heads": 3}, "divide"),
        ({"kv_len": 4}, "causal=False"),
        ({"dtype": "int8"}, "bfloat16"),
        ({"variants": ["fast"]}, "sdpa_flash"),
        ({"variants": []}, "empty"),
        ({"device": "nonsense"}, "cannot be used"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_wrong_use_is_refused(arguments, words):
    with pytest.raises(Error, match=words):
        headscope.compare(**{**SMALL, **arguments})


def test_command_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    sizes = ["--batch", "1", "--heads", "2", "--q-len", "8", "--head-dim", "8", "--repeats", "3"]

    assert main(["compare", *sizes, "--variants", "eager,sdpa_flash", "-o", str(path)]) == 0
    assert "attention 1×2(2)×8→8×8, float32 on cpu, causal, forward" in capsys.readouterr().out
    assert [row["variant"] for row in json.loads(path.read_text())["rows"]] == ["eager", "sdpa_flash"]
    assert main(["compare", *sizes, "--kv-heads", "3"]) == 2
    assert "divide" in capsys.readouterr().err
