"""KV-cache occupancy: each cache class of transformers during generate(), paged batching, and registered caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    MistralConfig,
    MistralForCausalLM,
    QuantizedCache,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)

import headscope
from headscope import AttentionProfiler, Error, KvCacheTracker, register_kv_cache
from helpers.generation import CACHE, HEAD_DIM, KV_HEADS, LAYERS, SIZES, tiny_llama

TOKEN_BYTES = 2 * KV_HEADS * HEAD_DIM * 4 * LAYERS


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    return tiny_llama()


class AfterEachStep(LogitsProcessor):
    """Takes the profiler's figures after each forward of generate(), and the cache's own from the test's reader."""

    def __init__(self, profiler: AttentionProfiler, cache: Any, truth: Any) -> None:
        self.profiler, self.cache, self.truth = profiler, cache, truth
        self.pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows = self.profiler.get_stats()["kv_cache"]
        whole = next(row for row in rows if row["layer"] is None and not row["freed"])
        self.pairs.append((whole, self.truth(self.cache)))
        return scores


def generate(model: Any, cache: Any, truth: Any, prompt: torch.Tensor, **options: Any) -> AfterEachStep:
    with AttentionProfiler(model) as profiler:
        steps = AfterEachStep(profiler, cache, truth)
        options.setdefault("attention_mask", torch.ones_like(prompt))
        model.generate(
            prompt,
            **{CACHE: cache},
            max_new_tokens=options.pop("max_new_tokens", 6),
            min_new_tokens=6,
            do_sample=False,
            logits_processor=LogitsProcessorList([steps]),
            **options,
        )
    assert len(steps.pairs) >= 6
    return steps


def of_dynamic(cache: Any) -> dict[str, Any]:
    keys = cache.layers[0].keys
    return {
        "capacity_tokens": None,
        "reserved_tokens": keys.shape[0] * keys.shape[2],
        "used_tokens": keys.shape[0] * keys.shape[2],
        "used_bytes": sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers),
    }


def assert_equal_at_each_step(steps: AfterEachStep, kind: str) -> None:
    for shown, true in steps.pairs:
        assert {key: shown[key] for key in true} == true
        assert shown["kind"] == kind


def test_dynamic_cache_grows_by_a_slot_a_token(llama: LlamaForCausalLM) -> None:
    steps = generate(llama, DynamicCache(), of_dynamic, torch.randint(1, 97, (1, 9)))
    assert_equal_at_each_step(steps, "dynamic")
    assert [shown["used_tokens"] for shown, _ in steps.pairs] == [9, 10, 11, 12, 13, 14]
    assert steps.pairs[0][0]["bytes_per_token"] == TOKEN_BYTES


def test_beam_search_counts_each_beam(llama: LlamaForCausalLM) -> None:
    steps = generate(llama, DynamicCache(), of_dynamic, torch.randint(1, 97, (2, 9)), num_beams=3)
    assert_equal_at_each_step(steps, "dynamic")
    assert steps.pairs[0][0]["sequences"] == 6


def test_left_padding_is_used_and_told_apart(llama: LlamaForCausalLM) -> None:
    prompt = torch.randint(1, 97, (2, 9))
    mask = torch.ones_like(prompt)
    prompt[0, :4], mask[0, :4] = 0, 0
    steps = generate(llama, DynamicCache(), of_dynamic, prompt, attention_mask=mask)
    assert_equal_at_each_step(steps, "dynamic")
    assert all(shown["padding_tokens"] == 4 for shown, _ in steps.pairs)
    assert steps.pairs[0][0]["padding_share"] == 4 / 18


def test_chunked_prefill_ends_with_the_same_tokens(llama: LlamaForCausalLM) -> None:
    steps = generate(
        llama,
        DynamicCache(),
        of_dynamic,
        torch.randint(1, 97, (1, 12)),
        generation_config=GenerationConfig(prefill_chunk_size=5, pad_token_id=0),
    )
    assert_equal_at_each_step(steps, "dynamic")
    assert steps.pairs[0][0]["used_tokens"] == 12


def test_static_cache_reserves_its_capacity(llama: LlamaForCausalLM) -> None:
    def truth(cache: Any) -> dict[str, Any]:
        written = int((cache.layers[0].keys[0, 0].abs().sum(-1) > 0).sum())
        return {"capacity_tokens": 2 * 64, "reserved_tokens": 2 * 64, "used_tokens": 2 * written}

    cache = StaticCache(config=llama.config, max_cache_len=64)
    steps = generate(llama, cache, truth, torch.randint(1, 97, (2, 9)))
    assert_equal_at_each_step(steps, "static")
    first = steps.pairs[0][0]
    assert first["occupancy"] == 9 / 64
    assert first["occupancy_of"] == "capacity"
    assert first["tokens_left"] == 2 * (64 - 9)


@pytest.mark.parametrize("window", [6, 12])
def test_sliding_cache_holds_no_more_than_its_window(window: int) -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=window, pad_token_id=0)).eval()

    def truth(cache: Any) -> dict[str, Any]:
        return {"used_tokens": cache.layers[0].keys.shape[2]}

    steps = generate(model, DynamicCache(config=model.config), truth, torch.randint(1, 97, (1, 9)))
    assert_equal_at_each_step(steps, "sliding")
    assert all(shown["used_tokens"] <= shown["reserved_tokens"] for shown, _ in steps.pairs)


def test_layers_of_a_hybrid_cache_have_rows_of_their_own() -> None:
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        **SIZES,
        head_dim=HEAD_DIM,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        pad_token_id=0,
    )
    model = transformers.Gemma3ForCausalLM(config).eval()
    with AttentionProfiler(model) as profiler:
        cache = DynamicCache(config=config)
        model(torch.randint(1, 97, (1, 20)), **{CACHE: cache})
        rows = profiler.get_stats()["kv_cache"]
    assert [(row["layer"], row["kind"], row["used_tokens"]) for row in rows] == [
        (None, "dynamic", 20),
        ("0", "sliding", cache.layers[0].keys.shape[2]),
        ("1", "dynamic", 20),
    ]
    assert rows[0]["used_bytes"] == rows[1]["used_bytes"] + rows[2]["used_bytes"]


def test_sliding_layers_are_part_of_the_bytes_of_a_token() -> None:
    # Case 20: 36 layers, 8 kv heads of 64, bf16.
    config = transformers.Gemma3TextConfig(
        vocab_size=11,
        hidden_size=64,
        intermediate_size=8,
        num_hidden_layers=36,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=64,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention"] * 18,
        pad_token_id=0,
    )
    model = transformers.Gemma3ForCausalLM(config).eval().bfloat16()
    with AttentionProfiler(model) as profiler, torch.no_grad():
        output = model(torch.randint(1, 11, (1, 4)), use_cache=True)
        rows = profiler.get_stats()["kv_cache"]
    assert getattr(output, CACHE) is not None
    assert rows[0]["bytes_per_token"] == 73_728


def test_quantized_cache_counts_the_bytes_that_it_holds(llama: LlamaForCausalLM) -> None:
    try:
        cache = QuantizedCache(backend="fp8", config=llama.config)
    except ValueError as unknown:
        pytest.skip(f"the one backend that needs no further package: {unknown}")

    def truth(cache: Any) -> dict[str, Any]:
        parts = [part for layer in cache.layers for part in (layer._quantized_keys, layer._quantized_values)]
        return {
            "used_tokens": cache.layers[0]._quantized_keys[0].shape[2],
            "used_bytes": sum(tensor.nbytes + scale.nbytes for tensor, scale in parts),
        }

    steps = generate(llama, cache, truth, torch.randint(1, 97, (1, 9)))
    assert_equal_at_each_step(steps, "quantized")
    assert [shown["used_tokens"] for shown, _ in steps.pairs] == [9, 10, 11, 12, 13, 14]


def test_offloaded_cache_is_seen_where_it_lies(llama: LlamaForCausalLM) -> None:
    cache = DynamicCache()
    for _ in range(2):
        with AttentionProfiler(llama) as profiler, torch.no_grad():
            llama(torch.randint(1, 97, (1, 3)), **{CACHE: cache})
            for layer in cache.layers:
                layer.offload()
            shown = profiler.get_stats()["kv_cache"][0]
        assert shown["used_tokens"] == cache.get_seq_length()


def test_encoder_decoder_cache_is_two_caches() -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0
    )
    model = T5ForConditionalGeneration(config).eval()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def truth(cache: Any) -> dict[str, Any]:
        return {"used_tokens": cache.self_attention_cache.get_seq_length()}

    with AttentionProfiler(model) as profiler:
        steps = AfterEachStep(profiler, cache, truth)
        model.generate(
            torch.randint(1, 97, (1, 7)),
            **{CACHE: cache},
            min_new_tokens=4,
            max_new_tokens=4,
            do_sample=False,
            logits_processor=LogitsProcessorList([steps]),
        )
        rows = profiler.get_stats()["kv_cache"]
    assert_equal_at_each_step(steps, "dynamic")
    crossed = [row for row in rows if row["cache"].endswith(".cross") and row["layer"] is None]
    assert [row["used_tokens"] for row in crossed] == [7]


def test_a_cache_that_is_gone_keeps_its_last_figures(llama: LlamaForCausalLM) -> None:
    with AttentionProfiler(llama) as profiler:
        llama.generate(torch.randint(1, 97, (1, 9)), max_new_tokens=5, min_new_tokens=5, do_sample=False)
        rows = [row for row in profiler.get_stats()["kv_cache"] if row["layer"] is None]
    # The last token is chosen, and never fed back.
    assert [(row["freed"], row["used_tokens"]) for row in rows] == [(True, 9 + 4)]
    growth = [point["used_tokens"] for point in rows[0]["growth"]]
    assert (growth[0], growth[-1]) == (9, 13)


def test_caches_of_before_the_profiler_are_not_shown(llama: LlamaForCausalLM) -> None:
    with AttentionProfiler(llama):
        llama.generate(torch.randint(1, 97, (1, 9)), max_new_tokens=3, do_sample=False)
    with AttentionProfiler(llama) as profiler:
        assert profiler.get_stats()["kv_cache"] is None


def test_watching_changes_no_logits(llama: LlamaForCausalLM) -> None:
    prompt = torch.randint(1, 97, (1, 9))
    plain = llama.generate(prompt, max_new_tokens=5, do_sample=False)
    with AttentionProfiler(llama):
        watched = llama.generate(prompt, max_new_tokens=5, do_sample=False)
    assert torch.equal(plain, watched)


# Registered by hand.


def test_registered_cache_shows_what_its_owner_says() -> None:
    keys = [torch.zeros(2, 4, 32, 8) for _ in range(3)]
    values = [torch.zeros(2, 4, 32, 8) for _ in range(3)]
    with AttentionProfiler() as profiler, register_kv_cache("mine", keys, values, slots=64) as cache:
        cache.set_used(40, padding=8, sequences=2)
        row = profiler.get_stats()["kv_cache"][0]
    assert (row["cache"], row["kind"], row["layers"]) == ("mine", "registered", 3)
    assert (row["used_tokens"], row["capacity_tokens"], row["occupancy"]) == (40, 64, 40 / 64)
    assert row["bytes_per_token"] == 3 * 2 * 4 * 8 * 4
    assert row["padding_share"] == 8 / 40


def test_a_cache_cannot_be_registered_twice() -> None:
    keys = torch.zeros(2, 4, 32, 8)
    with register_kv_cache("mine", keys, slots=64), pytest.raises(Error, match="registered already, as 'mine'"):
        register_kv_cache("again", keys, slots=64)
    register_kv_cache("again", keys, slots=64).close()


@pytest.mark.parametrize("used", [-1, 65])
def test_more_than_the_slots_is_refused_and_changes_nothing(used: int) -> None:
    with AttentionProfiler() as profiler, register_kv_cache("mine", torch.zeros(64, 8), slots=64) as cache:
        cache.set_used(5)
        with pytest.raises(Error, match="used_tokens"):
            cache.set_used(used)
        assert profiler.get_stats()["kv_cache"][0]["used_tokens"] == 5


def test_closed_cache_takes_no_figures() -> None:
    cache = register_kv_cache("mine", torch.zeros(64, 8), slots=64)
    cache.close()
    with pytest.raises(Error, match="was closed"):
        cache.set_used(1)


def test_tracker_tells_block_and_token_occupancy_apart() -> None:
    # Case 19: 17 tokens in blocks of 16.
    with AttentionProfiler() as profiler:
        tracker = KvCacheTracker(name="server", layers=2, kv_heads=8, head_dim=64, blocks=2, block_size=16)
        sequence = tracker.add_sequence()
        tracker.give_blocks(sequence, [1, 0])
        tracker.append(sequence, 17)
        row = profiler.get_stats()["kv_cache"][0]
        with pytest.raises(Error, match="give_blocks"):
            tracker.append(sequence, 16)
    assert (row["blocks_used"], row["blocks_total"]) == (2, 2)
    assert row["block_occupancy"] == 1.0
    assert row["token_occupancy"] == 0.53125


# Seen in calls.


def test_hand_written_cache_is_a_view_of_its_tensor() -> None:
    keys, values = torch.zeros(2, 4, 64, 8), torch.zeros(2, 4, 64, 8)
    with AttentionProfiler() as profiler:
        for used in range(8, 12):
            query = torch.randn(2, 4, 1, 8)
            for layer in ("a", "b"):
                with headscope.layer(layer):
                    F.scaled_dot_product_attention(query, keys[:, :, :used], values[:, :, :used])
    rows = profiler.get_stats()["kv_cache"]
    assert [(row["layer"], row["kind"], row["layers"]) for row in rows] == [
        (None, "view", 2),
        ("a", "view", 1),
        ("b", "view", 1),
    ]
    assert (rows[0]["used_tokens"], rows[0]["capacity_tokens"]) == (2 * 11, 2 * 64)
    assert rows[0]["occupancy"] == 11 / 64
    assert rows[0]["bytes_per_token"] == 2 * (2 * 4 * 8 * 4)


def test_part_of_a_tensor_that_is_no_cache() -> None:
    # Self-attention of the first half: nothing was there before its queries.
    whole = torch.randn(2, 4, 64, 8)
    with AttentionProfiler() as profiler:
        half = whole[:, :, :32]
        F.scaled_dot_product_attention(half, half, half, is_causal=True)
    assert profiler.get_stats()["kv_cache"] is None


# Every class of cache in every way of generating.


def mistral() -> MistralForCausalLM:
    torch.manual_seed(0)
    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=7, pad_token_id=0)).eval()


def slots_with_keys(layer: Any) -> int:
    """Slots of the last sequence, which has no padding (whose keys are 0 here), that hold anything."""
    return int((layer.keys[-1].abs().sum((0, 2)) > 0).sum())


def of_static(cache: Any) -> dict[str, Any]:
    layer = cache.layers[0]
    batch, slots = layer.keys.shape[0], layer.keys.shape[2]
    return {
        "capacity_tokens": batch * slots,
        "reserved_tokens": batch * slots,
        "used_tokens": batch * slots_with_keys(layer),
    }


def of_sliding(cache: Any) -> dict[str, Any]:
    keys = cache.layers[0].keys
    per_slot = keys.shape[0] * KV_HEADS * HEAD_DIM * 4
    return {
        "reserved_tokens": keys.shape[0] * (keys.untyped_storage().nbytes() // per_slot),
        "used_tokens": keys.shape[0] * keys.shape[2],
    }


def of_quantized(cache: Any) -> dict[str, Any]:
    keys = cache.layers[0]._quantized_keys[0]
    return {"capacity_tokens": None, "used_tokens": keys.shape[0] * keys.shape[2]}


CLASSES: dict[str, Any] = {
    "dynamic": (None, lambda _: DynamicCache(), of_dynamic),
    "static": (None, lambda model: StaticCache(config=model.config, max_cache_len=40), of_static),
    "sliding": (mistral, lambda model: DynamicCache(config=model.config), of_sliding),
    "sliding static": (mistral, lambda model: StaticCache(config=model.config, max_cache_len=40), of_static),
    "quantized": (None, lambda model: QuantizedCache(backend="fp8", config=model.config), of_quantized),
}
KINDS = {"sliding static": "sliding"}


@pytest.mark.parametrize("way", ["greedy", "beams", "left padding", "chunks"])
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_in_every_way_of_generating(llama: LlamaForCausalLM, name: str, way: str) -> None:
    make_model, make_cache, truth = CLASSES[name]
    model = make_model() if make_model else llama
    prompt = torch.randint(1, 97, (2, 11))
    options: dict[str, Any] = {"attention_mask": torch.ones_like(prompt)}
    if way == "beams":
        options["num_beams"] = 2
    elif way == "left padding":
        prompt[0, :4], options["attention_mask"][0, :4] = 0, 0
    elif way == "chunks":
        options["generation_config"] = GenerationConfig(prefill_chunk_size=5, pad_token_id=0)
    try:
        cache = make_cache(model)
    except ValueError as unknown:
        pytest.skip(f"the one backend that needs no further package: {unknown}")
    steps = generate(model, cache, truth, prompt, **options)
    assert_equal_at_each_step(steps, KINDS.get(name, name))
    # generate() gives the model no mask without padding, and with a static cache none of two dimensions.
    padded = way == "left padding" and "static" not in name
    assert steps.pairs[-1][0]["padding_tokens"] in ([4] if padded else [0, None])
