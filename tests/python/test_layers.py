"""Layers are named by the module that attends, and the hooks that do it leave the model as it was."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest
import torch
from torch import nn

import headscope
from headscope import AttentionProfiler
from headscope.attention_modules import find_attention
from tiny_models import CASES, FusedAttention, PlainBlock, Tower


def layers_seen(profiler: AttentionProfiler) -> set[str]:
    return {row["layer"] for row in profiler.get_stats().rows()}


def hook_counts(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) + ("forward" in module.__dict__)
        for module in model.modules()
    )


def build(name: str) -> nn.Module:
    if not name.startswith("torch"):
        pytest.importorskip("transformers")
    return CASES[name].build()


@pytest.mark.parametrize("name", CASES)
def test_attention_modules_of(name):
    found = find_attention(build(name))

    assert {module.name: (module.heads, module.kv_heads, module.cross) for module in found} == CASES[name].layers


@pytest.mark.parametrize("name", CASES)
def test_every_call_has_the_name_of_its_module_in(name):
    model = build(name)
    with torch.no_grad(), AttentionProfiler(model) as profiler:
        model(**CASES[name].inputs())

    assert layers_seen(profiler) == set(CASES[name].layers)
    assert hook_counts(model) == 0


@pytest.mark.parametrize("name", ["t5", "whisper", "torch_transformer"])
def test_cross_attention_is_the_phase_of_just_the_cross_layers_in(name):
    model = build(name)
    with torch.no_grad(), AttentionProfiler(model) as profiler:
        model(**CASES[name].inputs())

    cross = {row["layer"] for row in profiler.get_stats().rows(phase="cross")}
    assert cross == {layer for layer, (_, _, is_cross) in CASES[name].layers.items() if is_cross}


def test_layer_index_and_model_kv_heads_are_in_the_row():
    model = build("llama")
    with torch.no_grad(), AttentionProfiler(model) as profiler:
        model(**CASES["llama"].inputs())

    rows = profiler.get_stats().rows()
    assert [(row["layer_index"], row["heads"], row["model_kv_heads"]) for row in rows] == [(0, 4, 2), (1, 4, 2)]


def test_backward_has_the_layer_of_its_forward():
    model = Tower(FusedAttention(), FusedAttention())
    with AttentionProfiler(model) as profiler:
        model(torch.randn(1, 8, 32)).sum().backward()

    assert [row["layer"] for row in profiler.get_stats().rows(direction="backward")] == ["blocks.0", "blocks.1"]


def test_hand_written_attention_is_named():
    model = Tower(FusedAttention(), PlainBlock())
    with AttentionProfiler(model) as profiler:
        model(torch.randn(1, 8, 32))

    assert layers_seen(profiler) == {"blocks.0", "blocks.1"}


def test_argument_decides_between_self_and_cross():
    model = PlainBlock()
    x, other = torch.randn(1, 8, 32), torch.randn(1, 12, 32)
    with AttentionProfiler(model) as profiler:
        model(x)
        model(x, other)
        model(x, context=other)

    phases = {row["phase"]: row["calls"] for row in profiler.get_stats().rows()}
    assert phases["cross"] == 2
    assert sum(phases.values()) == 3


def test_multihead_attention_with_another_key_is_cross():
    model = nn.MultiheadAttention(32, 4, batch_first=True)
    x, other = torch.randn(1, 8, 32), torch.randn(1, 12, 32)
    with AttentionProfiler(model) as profiler:
        model(x, x, x)
        model(x, other, other)
        model(query=x, key=other, value=other)

    rows = profiler.get_stats().rows()
    assert {row["layer"] for row in rows} == {"MultiheadAttention"}
    assert sum(row["calls"] for row in rows if row["phase"] == "cross") == 2


@pytest.mark.parametrize("nested", [False, True])
def test_encoder_layer_keeps_its_fast_path_and_is_named(nested):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    x = torch.randn(1, 8, 32)
    with torch.inference_mode(), AttentionProfiler() as plain:
        expected = model(x)
    with torch.inference_mode(), AttentionProfiler(model) as profiler:
        result = model(x)

    variants = {row["variant"] for row in plain.get_stats().rows()}
    assert {row["variant"] for row in profiler.get_stats().rows()} == variants == {"native_mha"}
    assert layers_seen(profiler) == {"layers.0.self_attn", "layers.1.self_attn"}
    assert torch.equal(result, expected)
    assert hook_counts(model) == 0


def test_shared_module_has_its_first_path():
    shared = FusedAttention()
    model = Tower(shared, shared)
    with AttentionProfiler(model) as profiler:
        model(torch.randn(1, 8, 32))

    (row,) = profiler.get_stats().rows()
    assert (row["layer"], row["calls"]) == ("blocks.0", 2)


def test_wrappers_leave_no_trace_in_names():
    model = nn.DataParallel(Tower(FusedAttention()))
    assert [found.name for found in find_attention(model)] == ["blocks.0"]
    assert [found.name for found in find_attention(torch.compile(Tower(FusedAttention())))] == ["blocks.0"]


def test_layer_scope_inside_a_module_wins():
    class Labelled(FusedAttention):
        def forward(self, x):
            with headscope.layer("mine"):
                return super().forward(x)

    model = Tower(Labelled())
    with AttentionProfiler(model) as profiler:
        model(torch.randn(1, 8, 32))

    assert layers_seen(profiler) == {"mine"}


def test_exception_in_a_module_leaves_its_name():
    class Broken(FusedAttention):
        def forward(self, x):
            raise NotImplementedError

    model = Tower(Broken())
    with AttentionProfiler(model) as profiler:
        with pytest.raises(NotImplementedError):
            model(torch.randn(1, 8, 32))
        query = torch.randn(1, 2, 8, 8)
        nn.functional.scaled_dot_product_attention(query, query, query)

    assert layers_seen(profiler) == {"attention[0]"}


def test_stop_inside_a_module_leaves_its_name(attend):
    profiler = AttentionProfiler(Tower(inside := FusedAttention()))
    inside.register_forward_hook(lambda *_: profiler.stop())
    profiler.start()
    inside(torch.randn(1, 8, 32))
    with AttentionProfiler() as other:
        attend()

    assert layers_seen(other) == {"attention[0]"}
    assert hook_counts(inside) == 1


def test_stop_from_outside_while_a_thread_is_inside_leaves_its_name(attend):
    gate, entered = threading.Event(), threading.Event()

    class Waiting(FusedAttention):
        def forward(self, x):
            entered.set()
            gate.wait(10)
            return super().forward(x)

    model = Tower(Waiting())
    profiler, other = AttentionProfiler(model), AttentionProfiler()

    def work() -> None:
        model(torch.randn(1, 8, 32))
        with other:
            attend()

    thread = threading.Thread(target=work)
    profiler.start()
    thread.start()
    entered.wait(10)
    profiler.stop()
    gate.set()
    thread.join()

    assert layers_seen(other) == {"attention[0]"}
    assert hook_counts(model) == 0


def test_start_while_a_thread_is_inside_does_not_take_another_name():
    gate, entered = threading.Event(), threading.Event()

    class Waiting(FusedAttention):
        def forward(self, x):
            entered.set()
            gate.wait(10)
            return super().forward(x)

    model = Tower(Waiting())

    def work() -> None:
        with headscope.layer("outer"):
            model(torch.randn(1, 8, 32))
            model(torch.randn(1, 8, 32))
            query = torch.randn(1, 2, 8, 8)
            nn.functional.scaled_dot_product_attention(query, query, query)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(10)
    with AttentionProfiler(model) as profiler:
        gate.set()
        thread.join()

    stats = profiler.get_stats()
    assert [row["calls"] for row in stats.layer("outer")] == [1, 1]
    assert [row["calls"] for row in stats.layer("blocks.0")] == [1]


@pytest.mark.parametrize("kind", ["fused", "encoder"])
def test_model_is_copied_pickled_and_saved_while_profiled(kind):
    model: nn.Module = Tower(FusedAttention(), PlainBlock())
    if kind == "encoder":
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x = torch.randn(1, 8, 32)
    expected = model(x)
    with AttentionProfiler(model):
        copied = copy.deepcopy(model)
        pickled = pickle.loads(pickle.dumps(model))
        file = io.BytesIO()
        torch.save(model, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)

    with AttentionProfiler() as profiler:
        for other in (copied, pickled, saved):
            assert torch.allclose(other(x), expected)
    assert all(name.startswith("attention[") for name in layers_seen(profiler))


def test_pickle_of_a_profiled_model_needs_no_headscope():
    with AttentionProfiler(model := Tower(FusedAttention())):
        text = pickle.dumps(model)
    assert b"headscope" not in text


def test_copy_made_while_profiled_keeps_its_names_until_the_stop():
    model = Tower(FusedAttention())
    x = torch.randn(1, 8, 32)
    with AttentionProfiler(model) as profiler:
        copied = copy.deepcopy(model)
        copied(x)
    assert layers_seen(profiler) == {"blocks.0"}


@pytest.mark.parametrize("encoder", [False, True])
def test_compiled_model_has_as_many_graphs_with_the_profiler_as_without(encoder):
    from torch._dynamo.testing import CompileCounter

    def graphs(profiled: bool) -> int:
        torch._dynamo.reset()
        counter = CompileCounter()
        model: nn.Module = Tower(FusedAttention(), PlainBlock())
        if encoder:
            model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        compiled = torch.compile(model, backend=counter, fullgraph=True)
        if profiled:
            with AttentionProfiler(model):
                compiled(torch.randn(1, 8, 32))
                compiled(torch.randn(1, 8, 32))
        else:
            compiled(torch.randn(1, 8, 32))
            compiled(torch.randn(1, 8, 32))
        return counter.frame_count

    assert graphs(profiled=True) == graphs(profiled=False) == 1


def test_layer_scope_in_compiled_code_breaks_no_graph():
    @torch.compile(backend="eager", fullgraph=True)
    def work(x):
        with headscope.layer("inside"):
            return x + 1

    assert torch.equal(work(torch.zeros(2)), torch.ones(2))


def test_checkpointed_module_is_named_in_its_recompute():
    from torch.utils.checkpoint import checkpoint

    model = FusedAttention()
    x = torch.randn(1, 8, 32, requires_grad=True)
    with AttentionProfiler(Tower(model)) as profiler:
        checkpoint(model, x, use_reentrant=False).sum().backward()

    rows = {row["direction"]: row["layer"] for row in profiler.get_stats().rows()}
    assert rows == dict.fromkeys(("forward", "recompute", "backward"), "blocks.0")


def test_compiled_model_is_named_by_the_order_of_its_modules(private_cache):
    model, x = Tower(FusedAttention(), FusedAttention()), torch.randn(1, 8, 32)
    compiled = torch.compile(model, fullgraph=True)
    compiled(x).sum().backward()

    with AttentionProfiler(model) as prof:
        for _ in range(2):
            compiled(x).sum().backward()

    rows = prof.get_stats().attention_breakdown
    names = [found.name for found in find_attention(model)]
    assert sorted({(row["layer"], row["direction"], row["calls"]) for row in rows}) == sorted(
        (name, direction, 2) for name in names for direction in ("forward", "backward")
    )
    assert {row["layer_provenance"] for row in rows} == {"estimated"}
