"""Phases, positions, requests, stages and windows of programs that serve."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from transformers import (
    DynamicCache,
    GenerationConfig,
    LlamaForCausalLM,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)

from headscope import AttentionProfiler, Error
from helpers.generation import CACHE, LAYERS, tiny_llama


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    return tiny_llama()


def calls_by_phase(stats: Any) -> dict[str, int]:
    return {row["phase"]: row["calls"] for row in stats["phases"]}


def generate(model: Any, length: int, **options: Any) -> Any:
    prompt = options.pop("prompt", torch.randint(1, 97, (1, length)))
    with AttentionProfiler(model, decode_max_q=options.pop("decode_max_q", 1)) as profiler:
        model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False, **options)
    return profiler.get_stats()


def test_static_cache_is_prefilled_and_then_decodes(llama: LlamaForCausalLM) -> None:
    stats = generate(llama, 9, **{CACHE: StaticCache(config=llama.config, max_cache_len=64)})
    assert calls_by_phase(stats) == {"prefill": LAYERS, "decode": 4 * LAYERS}


def test_prompt_of_one_token_is_a_prefill(llama: LlamaForCausalLM) -> None:
    assert calls_by_phase(generate(llama, 1)) == {"prefill": LAYERS, "decode": 4 * LAYERS}


def test_left_padded_prompt_is_a_prefill(llama: LlamaForCausalLM) -> None:
    prompt = torch.randint(1, 97, (2, 9))
    mask = torch.ones_like(prompt)
    prompt[0, :4], mask[0, :4] = 0, 0
    stats = generate(llama, 9, prompt=prompt, attention_mask=mask)
    assert calls_by_phase(stats) == {"prefill": LAYERS, "decode": 4 * LAYERS}


def test_chunks_behind_the_first_are_chunked_prefill(llama: LlamaForCausalLM) -> None:
    stats = generate(llama, 12, generation_config=GenerationConfig(prefill_chunk_size=5, pad_token_id=0))
    assert calls_by_phase(stats) == {"prefill": LAYERS, "chunked_prefill": 2 * LAYERS, "decode": 4 * LAYERS}
    assert stats["requests"]["prompt_tokens"] == 12


def test_drafts_are_decoded_together(llama: LlamaForCausalLM) -> None:
    cache = DynamicCache()
    with AttentionProfiler(llama, decode_max_q=4) as profiler, torch.no_grad():
        llama(torch.randint(1, 97, (1, 9)), **{CACHE: cache})
        for _ in range(3):
            llama(torch.randint(1, 97, (1, 4)), **{CACHE: cache})
    assert calls_by_phase(profiler.get_stats()) == {"prefill": LAYERS, "decode": 3 * LAYERS}
    assert profiler.get_stats()["requests"]["generated_tokens"] == 12


def test_a_decoder_reads_its_encoder_across() -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0
    )
    model = T5ForConditionalGeneration(config).eval()
    with AttentionProfiler(model) as profiler:
        model.generate(torch.randint(1, 97, (1, 7)), max_new_tokens=4, min_new_tokens=4, do_sample=False)
    stats = profiler.get_stats()
    assert calls_by_phase(stats)["cross"] == 4 * 2
    crossed = [s for s in stats["positions"] if s["phase"] == "cross" and s["layer"] is None]
    assert [(s["axis"], s["bins"][0]["kv_len"]["min"]) for s in crossed] == [("key_length", 7)]


def test_positions_of_a_generation_hold_every_call(llama: LlamaForCausalLM) -> None:
    stats = generate(llama, 60)
    decode, prefill = (
        next(s for s in stats["positions"] if s["layer"] is None and s["phase"] == phase)
        for phase in ("decode", "prefill")
    )
    assert (decode["axis"], decode["provenance"]) == ("key_length", "measured")
    assert sum(b["calls"] for b in decode["bins"]) == 4 * LAYERS
    assert decode["bins"][0]["kv_len"]["min"] == 61
    assert decode["bins"][-1]["kv_len"]["max"] == 64
    assert (prefill["axis"], prefill["provenance"]) == ("query_block", "modelled")
    total = sum(row["time_ns"]["total"] for row in stats.rows(phase="prefill"))
    assert sum(b["time_ns"]["total"] for b in prefill["bins"]) == total
    assert sum(b["tokens"] for b in prefill["bins"]) == 60 * LAYERS
    assert {s["layer_index"] for s in stats["positions"]} == {None, 0, 1}


def test_requests_are_counted_once_whatever_the_layers(llama: LlamaForCausalLM) -> None:
    requests = generate(llama, 9, prompt=torch.randint(1, 97, (3, 9)))["requests"]
    assert (requests["prompts"], requests["prompt_tokens"], requests["generated_tokens"]) == (3, 27, 12)
    assert (requests["prefill_passes"], requests["decode_passes"]) == (1, 4)
    assert requests["attention_to_first_token_ns"] == requests["prefill_ns"]
    assert requests["attention_per_token_ns"] == pytest.approx(requests["decode_ns"] / 12, abs=1)


def attend(times: int = 1) -> None:
    x = torch.randn(1, 2, 8, 4)
    for _ in range(times):
        functional.scaled_dot_product_attention(x, x, x)


def test_stages_and_attention_and_the_rest_are_the_wall_time() -> None:
    with AttentionProfiler() as profiler:
        for _ in range(3):
            with profiler.stage("tokenize"):
                torch.randn(100, 100) @ torch.randn(100, 100)
            attend()
    stages = {row["stage"]: row for row in profiler.get_stats()["stages"]}
    assert set(stages) == {"tokenize", "(attention)", "(rest)"}
    assert stages["tokenize"]["count"] == 3
    assert sum(row["time_ns"] for row in stages.values()) == profiler.get_stats()["time"]["wall_ns"]


def test_stages_count_while_the_profiler_is_on_and_when_they_raise() -> None:
    profiler = AttentionProfiler()
    with profiler.stage("before"):
        pass
    with profiler:
        with profiler.paused(), profiler.stage("paused"):
            pass
        with pytest.raises(KeyError), profiler.stage("fails"):
            raise KeyError
    assert {row["stage"] for row in profiler.get_stats()["stages"]} == {"fails", "(attention)", "(rest)"}


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_stage_needs_a_name(name: Any) -> None:
    with pytest.raises(Error, match="a stage has a name"), AttentionProfiler().stage(name):
        pass


def test_windows_are_the_intervals_and_the_whole_stays() -> None:
    with AttentionProfiler() as profiler:
        attend(3)
        with profiler.stage("sample"):
            pass
        profiler.step()
        first = profiler.get_stats(window=True)
        attend(2)
        profiler.step()
        second = profiler.get_stats(window=True)
        empty = profiler.get_stats(window=True)
        attend(1)
    assert [s.total["calls"] for s in (first, second, empty)] == [3, 2, 0]
    assert [s["time"]["steps"] for s in (first, second, empty)] == [1, 1, 0]
    assert [point["first_step"] for point in second["steps"]] == [1]
    assert second["stages"] is None
    assert profiler.get_stats().total["calls"] == 6
    assert profiler.get_stats(window=True).total["calls"] == 1
    assert profiler.get_stats()["time"]["wall_ns"] >= first["time"]["wall_ns"] + second["time"]["wall_ns"]


def test_windows_of_a_serving_pool_lose_and_double_nothing() -> None:
    windows = []
    with AttentionProfiler() as profiler:
        workers = [threading.Thread(target=attend, args=(400,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            windows.append(profiler.get_stats(window=True).total["calls"])
        for worker in workers:
            worker.join()
        windows.append(profiler.get_stats(window=True).total["calls"])
        assert sum(windows) == profiler.get_stats().total["calls"] == 1600


def test_reset_begins_a_window() -> None:
    with AttentionProfiler() as profiler:
        attend(3)
        profiler.reset()
        attend(1)
        assert profiler.get_stats(window=True).total["calls"] == 1


def test_a_schedule_has_windows_of_its_own() -> None:
    profiler = AttentionProfiler(schedule=torch.profiler.schedule(wait=0, warmup=1, active=1))
    with profiler, pytest.raises(Error, match="on_ready"):
        profiler.get_stats(window=True)
