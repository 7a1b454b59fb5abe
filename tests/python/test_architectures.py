"""Each architecture's attention is seen once a module, with the work that its configuration implies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from headscope import Stats
from helpers.architectures import ARCHITECTURES, BATCH, LENGTH, Attention, tokens
from helpers.watching import Row, watch
from helpers.work import admitted, eager_backward_flops, forward_flops, fused_backward_flops

pytest.importorskip("transformers")

WITH_SDPA = [name for name, architecture in ARCHITECTURES.items() if architecture.sdpa]
GEOMETRY = ("q_len", "kv_len", "heads", "head_dim", "head_dim_v", "model_kv_heads")


def run(name: str, implementation: str, **options: Any) -> Stats:
    model = ARCHITECTURES[name].build(implementation)
    inputs = ARCHITECTURES[name].inputs()
    with torch.no_grad():
        return watch(lambda: model(**inputs), model, **options).stats


def by_layer(rows: Iterable[Row]) -> dict[str, Row]:
    rows = list(rows)
    assert len(rows) == len({row["layer"] for row in rows})
    return {row["layer"]: row for row in rows}


def rows_by_layer(stats: Stats) -> dict[str, Row]:
    return by_layer(stats.attention_breakdown)


def geometry(row: Row) -> dict[str, Any]:
    return {"layer": row["layer"], "calls": row["calls"], "batch": row["batch"], **{key: row[key] for key in GEOMETRY}}


def geometry_wanted(attention: Attention) -> dict[str, Any]:
    values = {key: getattr(attention, key) for key in GEOMETRY}
    return {"layer": attention.layer, "calls": 1, "batch": BATCH, **values}


def assert_flops_of_heads(stats: Stats, wanted: dict[str, int]) -> None:
    """All heads of a layer of these models admit as many pairs, so each has an equal share."""
    for layer, flops in wanted.items():
        heads = [row for row in stats.heads or [] if row["layer"] == layer]
        assert [(row["head"], row["flops"]) for row in heads] == [(head, flops // 4) for head in range(4)]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_eager_modules_make_one_call_each_in(name):
    stats = run(name, "eager")

    wanted = ARCHITECTURES[name].attention
    assert by_layer(map(geometry, stats.attention_breakdown)) == by_layer(map(geometry_wanted, wanted))
    assert {row["variant"] for row in stats.attention_breakdown} == {"eager"}
    assert stats["diagnostics"]["chains_unfinished"] == 0


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_eager_flops_are_dense_and_say_so_where_no_mask_can_be_seen_in(name):
    stats = run(name, "eager")

    wanted = {one.layer: one.flops_dense for one in ARCHITECTURES[name].attention}
    rows = rows_by_layer(stats)
    assert {layer: row["flops"] for layer, row in rows.items()} == wanted
    assert {row["mask"] for row in rows.values()} == {"unseen"}
    assert {row["provenance"]["flops"] for row in rows.values()} == {"estimated"}
    assert_flops_of_heads(stats, wanted)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_eager_flops_and_phases_are_exact_with_detail_in(name):
    stats = run(name, "eager", eager="detail")

    wanted = {one.layer: one.flops for one in ARCHITECTURES[name].attention}
    rows = rows_by_layer(stats)
    assert {layer: row["flops"] for layer, row in rows.items()} == wanted
    assert {layer: row["phase"] for layer, row in rows.items()} == {
        one.layer: one.phase for one in ARCHITECTURES[name].attention
    }
    assert {row["provenance"]["flops"] for row in rows.values()} == {"modelled"}
    assert_flops_of_heads(stats, wanted)


@pytest.mark.parametrize("name", WITH_SDPA)
def test_sdpa_modules_make_one_call_each_with_exact_flops_in(name):
    stats = run(name, "sdpa")

    wanted = ARCHITECTURES[name].attention
    rows = rows_by_layer(stats)
    assert by_layer(map(geometry, rows.values())) == by_layer(map(geometry_wanted, wanted))
    assert {row["variant"] for row in rows.values()} == {ARCHITECTURES[name].sdpa}
    assert {layer: row["flops"] for layer, row in rows.items()} == {one.layer: one.flops for one in wanted}
    assert {layer: row["flops_dense"] for layer, row in rows.items()} == {one.layer: one.flops_dense for one in wanted}
    assert {layer: row["phase"] for layer, row in rows.items()} == {one.layer: one.phase for one in wanted}
    assert_flops_of_heads(stats, {one.layer: one.flops for one in wanted})


@pytest.mark.parametrize("name", ["t5", "whisper"])
def test_encoder_and_decoder_make_three_calls_a_layer_pair_in(name):
    rows = run(name, "eager").attention_breakdown

    assert len(rows) == 2 + 2 + 2
    assert [row["phase"] for row in rows].count("cross") == 2


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_router_and_experts_of_mixtral_make_no_call(implementation):
    architecture = ARCHITECTURES["mixtral"]
    model = architecture.build(implementation)
    mixture = model.layers[0].mlp

    watched = watch(lambda: mixture(torch.randn(BATCH, LENGTH, 32, requires_grad=True))[0].sum().backward(), model)

    assert watched.calls() == []


def test_value_dim_of_deepseek_v3_is_the_reason_of_its_fallback():
    assert {row["fallback_reason"] for row in run("deepseek_v3", "sdpa").attention_breakdown} == {"head_dims"}


def test_repeated_keys_of_llama_are_what_was_executed():
    """transformers repeats K and V itself where it passes a mask; without one SDPA reads shared heads."""
    rows = {implementation: run("llama", implementation).attention_breakdown[0] for implementation in ("eager", "sdpa")}

    assert (rows["eager"]["kv_heads"], rows["eager"]["model_kv_heads"]) == (4, 2)
    assert (rows["sdpa"]["kv_heads"], rows["sdpa"]["model_kv_heads"]) == (2, 2)


def mask_of(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """The mask that the model hands to its first attention module."""
    seen: list[torch.Tensor] = []
    module = next(module for name, module in model.named_modules() if name.endswith("layers.0.self_attn"))
    handle = module.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["attention_mask"]), with_kwargs=True
    )
    with torch.no_grad():
        model(**inputs)
    handle.remove()
    return seen[0]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_padded_batch_of_llama_counts_the_pairs_of_its_mask(implementation):
    model = ARCHITECTURES["llama"].build(implementation)
    padding = torch.ones(BATCH, LENGTH, dtype=torch.long)
    padding[1, :5] = 0
    inputs = {"input_ids": tokens(), "attention_mask": padding}
    mask = mask_of(model, inputs)
    assert mask.shape == (BATCH, 1, LENGTH, LENGTH)

    with torch.no_grad():
        stats = watch(lambda: model(**inputs), model, eager="detail").stats

    for row in stats.attention_breakdown:
        assert (row["mask"], row["phase"]) == ("counted", "prefill")
        assert row["flops"] == forward_flops(4 * admitted(mask), 8)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_generate_of_llama_is_one_prefill_and_a_decode_for_each_further_token(implementation):
    model = ARCHITECTURES["llama"].build(implementation)
    generate = lambda: model.generate(  # noqa: E731
        tokens(), attention_mask=torch.ones_like(tokens()), max_new_tokens=4, min_new_tokens=4, do_sample=False
    )

    watched = watch(generate, model, eager="detail")

    assert watched.result.shape == (BATCH, LENGTH + 4)
    phases = [(call["layer"], call["phase"], call["q_len"], call["kv_len"]) for call in watched.calls()]
    names = ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert phases == [(name, "prefill", LENGTH, LENGTH) for name in names] + [
        (name, "decode", 1, LENGTH + step) for step in (1, 2, 3) for name in names
    ]
    decode = [call["flops"] for call in watched.calls() if call["phase"] == "decode"]
    assert decode == [forward_flops(BATCH * 4 * (LENGTH + step), 8) for step in (1, 2, 3) for _ in names]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_generate_of_llama_with_a_cache_that_is(cache):
    """The keys of a static cache are its capacity; a mask says which of them are used."""
    model = ARCHITECTURES["llama"].build("sdpa")
    generate = lambda: model.generate(  # noqa: E731
        tokens(),
        attention_mask=torch.ones_like(tokens()),
        max_new_tokens=4,
        min_new_tokens=4,
        do_sample=False,
        cache_implementation=cache,
        disable_compile=True,
    )

    calls = watch(generate, model).calls()

    assert [call["phase"] for call in calls] == 2 * ["prefill"] + 6 * ["decode"]
    pairs_of_steps = (LENGTH * (LENGTH + 1) // 2, LENGTH + 1, LENGTH + 2, LENGTH + 3)
    assert [call["flops"] for call in calls] == [
        forward_flops(BATCH * 4 * pairs, 8) for pairs in pairs_of_steps for _ in range(2)
    ]


def test_decode_of_a_padded_batch_has_the_heads_of_the_model():
    """Where there is a mask, transformers packs the query heads of a decoded token into the query axis."""
    model = ARCHITECTURES["llama"].build("sdpa")
    padding = torch.ones(BATCH, LENGTH, dtype=torch.long)
    padding[1, :5] = 0
    generate = lambda: model.generate(  # noqa: E731
        tokens(), attention_mask=padding, max_new_tokens=2, min_new_tokens=2, do_sample=False
    )

    stats = watch(generate, model).stats

    for row in stats.rows(phase="decode"):
        assert (row["heads"], row["kv_heads"], row["q_len"], row["kv_len"]) == (4, 2, 1, LENGTH + 1)
        # One sequence sees all keys, the other all but its padding.
        assert row["flops"] == forward_flops(4 * (LENGTH + 1 + LENGTH + 1 - 5), 8)
    assert len(stats.rows(phase="decode")) == 2


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_eager_backward_is_one_call_for_each_forward_in(name):
    architecture = ARCHITECTURES[name]
    model = architecture.build("eager")
    inputs = architecture.inputs()

    def program() -> None:
        output = model(**inputs)
        tensors = [output[key] for key in ("logits", "last_hidden_state", "logits_per_text") if key in output]
        tensors[0].float().sum().backward()

    watched = watch(program, model)

    forwards = {call["call_id"]: call for call in watched.calls("forward")}
    backwards = watched.calls("backward")
    assert len(forwards) == len(backwards) == len(architecture.attention)
    assert {call["forward_call_id"] for call in backwards} == set(forwards)
    modules = {one.layer: one for one in architecture.attention}
    for call in backwards:
        assert call["layer"] == forwards[call["forward_call_id"]]["layer"]
        one = modules[call["layer"]]
        pairs = BATCH * one.heads * one.q_len * one.kv_len
        assert call["flops"] == eager_backward_flops(pairs, one.head_dim, one.head_dim_v) + 2 * one.extra_flops


@pytest.mark.parametrize("name", WITH_SDPA)
def test_sdpa_backward_is_one_call_for_each_forward_in(name):
    architecture = ARCHITECTURES[name]
    model = architecture.build("sdpa")
    inputs = architecture.inputs()

    def program() -> None:
        output = model(**inputs)
        tensors = [output[key] for key in ("logits", "last_hidden_state", "logits_per_text") if key in output]
        tensors[0].float().sum().backward()

    watched = watch(program, model)

    forwards = {call["call_id"]: call for call in watched.calls("forward")}
    backwards = watched.calls("backward")
    assert {call["forward_call_id"] for call in backwards} == set(forwards)
    assert len(backwards) == len(architecture.attention)
    modules = {one.layer: one for one in architecture.attention}
    flops_of = eager_backward_flops if architecture.sdpa == "sdpa_math" else fused_backward_flops
    for call in backwards:
        one = modules[call["layer"]]
        assert call["flops"] == flops_of(one.pairs, one.head_dim, one.head_dim_v)
