"""The examples run, and the training script among them is profiled from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.work import forward_flops, fused_backward_flops

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("checkpoint", [False, True])
def test_run_shows_all_passes_of_a_training_script_that_knows_nothing_of_headscope(checkpoint, run_python, tmp_path):
    script = str(EXAMPLES / "plain_training.py")
    plain = run_python(script, "--steps", "3", *["--checkpoint"][:checkpoint])
    done = run_python("-m", "headscope", "run", script, "--steps", "3", *["--checkpoint"][:checkpoint])

    assert done.returncode == 0, done.stderr
    losses = [line for line in plain.stdout.splitlines() if line.startswith("step")]
    assert losses == [line for line in done.stdout.splitlines() if line.startswith("step")]
    report = json.loads((tmp_path / "headscope.json").read_text())
    assert report["time"]["steps"] == 3
    # 8 sequences × 4 heads × (1 + 2 + … + 64) pairs, heads of 16, in each of 3 steps
    pairs = 8 * 4 * (64 * 65 // 2)
    flops = {"forward": 3 * forward_flops(pairs, 16), "backward": 3 * fused_backward_flops(pairs, 16)}
    if checkpoint:
        flops["recompute"] = flops["forward"]
    assert {
        (row["layer"], row["direction"]): (row["calls"], row["flops"]) for row in report["attention_breakdown"]
    } == {(f"attention[{layer}]", direction): (3, count) for layer in (0, 1) for direction, count in flops.items()}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("training.py", ["layers.2.self_attn", "backward", "4 steps"]),
        ("generate.py", ["layers.1", "prefill", "decode"]),
        (
            "scheduled_training.py",
            ["steps [8, 9]:", "steps [18, 19]:", "steps [28, 29]:", "layers.2.self_attn", "2 steps"],
        ),
        (
            "compiled_training.py",
            [
                "named by the order of the model's attention",
                "forward: 10 calls in 5 steps",
                "backward: 10 calls in 5 steps",
            ],
        ),
    ],
)
def test_example(script, words, run_python):
    done = run_python(str(EXAMPLES / script), "", timeout=300)

    assert done.returncode == 0, done.stderr
    assert [word for word in words if word not in done.stdout] == []
