"""Every variant of attention × every way to train it: the calls of each direction, their FLOPs and their layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from headscope import AttentionProfiler
from helpers.training import FULL, FUSED, VARIANTS, batch, stack

CHECKPOINTS = {"reentrant": True, "non-reentrant": False}


def watch(model, step, name_layers=True, steps=1):
    with AttentionProfiler(model if name_layers else None, keep_calls=100) as prof:
        for _ in range(steps):
            step()
    stats = prof.get_stats()
    assert stats.diagnostics["hook_errors"] == stats.diagnostics["calls_failed"] == 0
    return stats


def table(stats):
    return Counter((call["layer"], call["variant"], call["direction"], call["flops"]) for call in stats.calls)


def expected(variant, steps=1, recomputed=False, layers=None):
    counts = Counter()
    for layer in layers or variant.layers:
        counts[layer, variant.name, "forward", variant.forward_flops] += steps
        if recomputed:
            counts[layer, variant.name, "recompute", variant.forward_flops] += steps
        counts[layer, variant.name, "backward", variant.backward_flops] += steps
    return counts


def assert_backward_names_its_forward(stats):
    forwards = {call["call_id"]: call for call in stats.calls if call["direction"] == "forward"}
    for call in stats.calls:
        if call["direction"] != "forward":
            forward = forwards[call["forward_call_id"]]
            assert call["layer"] == forward["layer"]
            assert [call[key] for key in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")] == [
                forward[key] for key in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")
            ]


@pytest.mark.parametrize("name", VARIANTS)
def test_plain(name):
    model, x = stack(name), batch()
    stats = watch(model, lambda: model(x).sum().backward())
    assert table(stats) == expected(VARIANTS[name])
    assert_backward_names_its_forward(stats)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("reentrant", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_checkpoint(name, reentrant, named):
    """DeepSpeed#3362: what ran again was counted as the model's work."""
    model, x = stack(name, reentrant), batch()
    stats = watch(model, lambda: model(x).sum().backward(), named)
    layers = None if named else ("attention[0]", "attention[1]")
    assert table(stats) == expected(VARIANTS[name], recomputed=True, layers=layers)
    assert_backward_names_its_forward(stats)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("reentrant", [None, *CHECKPOINTS.values()], ids=["plain", *CHECKPOINTS])
def test_autocast(name, reentrant):
    model, x = stack(name, reentrant), batch()

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().sum()
        loss.backward()

    stats = watch(model, step)
    assert table(stats) == expected(VARIANTS[name], recomputed=reentrant is not None)
    assert_backward_names_its_forward(stats)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("reentrant", [None, *CHECKPOINTS.values()], ids=["plain", *CHECKPOINTS])
def test_gradient_accumulation(name, reentrant):
    model = stack(name, reentrant)
    stats = watch(model, lambda: (model(batch()).sum() / 3).backward(), steps=3)
    assert table(stats) == expected(VARIANTS[name], steps=3, recomputed=reentrant is not None)
    assert_backward_names_its_forward(stats)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("reentrant", [None, *CHECKPOINTS.values()], ids=["plain", *CHECKPOINTS])
def test_all_forwards_before_one_backward(name, reentrant):
    model = stack(name, reentrant)
    stats = watch(model, lambda: sum(model(batch()).sum() for _ in range(3)).backward())
    assert table(stats) == expected(VARIANTS[name], steps=3, recomputed=reentrant is not None)
    assert_backward_names_its_forward(stats)


def assert_named_by_order(stats):
    assert {row["layer_provenance"] for row in stats.rows()} <= {"estimated"}


#: What AOTAutograd makes of a variant: the math path is its products and its softmax, each an op of its own, and
#: causal a mask that is added to the scores of all pairs.
DECOMPOSED = {
    name: replace(v, name="eager", pairs=FULL) if v.name == "sdpa_math" else v for name, v in VARIANTS.items()
}

#: What Inductor makes of those that it leaves to a kernel of attention, or turns into one.
IN_ONE_KERNEL = {name: v for name, v in VARIANTS.items() if v.name in ("sdpa_flash", "mine")} | {
    name: replace(VARIANTS[name], name="sdpa_flash", backward=FUSED) for name in ("sdpa math", "sdpa math causal")
}


@pytest.mark.parametrize("name", VARIANTS)
def test_compiled_to_a_graph_of_ops(name, private_cache):
    model, x = stack(name), batch()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    compiled(x).sum().backward()

    stats = watch(model, lambda: compiled(x).sum().backward())

    assert table(stats) == expected(DECOMPOSED[name])
    assert_backward_names_its_forward(stats)
    assert_named_by_order(stats)


@pytest.mark.parametrize("name", VARIANTS)
def test_compiled_to_kernels(name, private_cache):
    model, x = stack(name), batch()
    compiled = torch.compile(model, fullgraph=True)
    compiled(x).sum().backward()

    stats = watch(model, lambda: compiled(x).sum().backward())

    # A softmax fused into a kernel of Inductor's is not seen, and nothing is claimed of it.
    assert table(stats) == (expected(IN_ONE_KERNEL[name]) if name in IN_ONE_KERNEL else Counter())
    assert_backward_names_its_forward(stats)
    assert_named_by_order(stats)
