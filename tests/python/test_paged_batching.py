"""Occupancy of transformers' continuous batching, against the engine's own block manager at each forward."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import transformers
from transformers import GenerationConfig, LlamaForCausalLM

from headscope import AttentionProfiler
from helpers.generation import tiny_llama

paged = pytest.importorskip("transformers.generation.continuous_batching.cache")
if not hasattr(transformers, "ContinuousBatchingConfig"):
    pytest.skip("transformers 5 configures the engine by an object", allow_module_level=True)

PAGE, BLOCKS, NEW_TOKENS = 16, 24, 6


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> LlamaForCausalLM:
    # The engine asks for free GPU memory; here it is a number.
    free_memory = staticmethod(lambda *_, **__: 1 << 22)
    monkeypatch.setattr(paged.PagedAttentionMemoryHandler, "get_available_memory", free_memory)
    model = tiny_llama()
    model.set_attn_implementation("sdpa")
    return model


def blocks_of_the_engine(cache: Any) -> int:
    """Blocks that are neither free nor kept only for their content."""
    (group,) = cache.cache_allocators.values()
    free = cache.pool.num_free_sectors * group.blocks_per_sector + cache.pool.count_free_blocks(group.index)
    return int(group.num_blocks - free - len(group.ledger.cached_blocks))


def slots_written(cache: Any, lengths: dict[str, int]) -> int:
    (group,) = cache.cache_allocators.values()
    slots = {
        (block, slot)
        for request, blocks in group.block_table.items()
        for index, block in enumerate(blocks)
        for slot in range(min(PAGE, lengths[request] - index * PAGE))
    }
    return len(slots)


def batch(model: LlamaForCausalLM, prompts: list[list[int]]) -> list[tuple[dict[str, Any], int, int]]:
    """What was shown after each forward, and the engine's blocks and slots."""
    seen: list[tuple[dict[str, Any], int, int]] = []
    with AttentionProfiler(model) as profiler:

        def compare(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            row = profiler.get_stats()["kv_cache"][-1]
            # All prompts fit the first pass; each later one adds a token to every request.
            lengths = {f"req_{i}": len(prompt) + len(seen) for i, prompt in enumerate(prompts)}
            seen.append((row, blocks_of_the_engine(kwargs["cache"]), slots_written(kwargs["cache"], lengths)))

        handle = model.register_forward_hook(compare, with_kwargs=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = model.generate_batch(
                    inputs=prompts,
                    generation_config=GenerationConfig(
                        max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=-1, pad_token_id=0
                    ),
                    continuous_batching_config=transformers.ContinuousBatchingConfig(
                        page_size=PAGE, num_blocks=BLOCKS, max_batch_tokens=256, use_async_batching=False
                    ),
                    progress_bar=False,
                )
        finally:
            handle.remove()
    assert [len(result.generated_tokens) for result in results.values()] == [NEW_TOKENS] * len(prompts)
    assert len(seen) == NEW_TOKENS
    return seen


def assert_equal_to_the_engine(seen: list[tuple[dict[str, Any], int, int]]) -> None:
    for row, blocks, slots in seen:
        assert (row["blocks_total"], row["block_size"]) == (BLOCKS, PAGE)
        assert row["blocks_used"] == blocks
        assert row["used_tokens"] == slots
        assert row["block_occupancy"] == blocks / BLOCKS
        assert row["token_occupancy"] == slots / (blocks * PAGE)
        assert row["token_occupancy"] <= 1.0


def test_mixed_prompt_lengths(model: LlamaForCausalLM) -> None:
    prompts = [torch.randint(2, 97, (length,)).tolist() for length in (5, 17, 33)]
    seen = batch(model, prompts)
    assert_equal_to_the_engine(seen)
    assert [row["used_tokens"] for row, _, _ in seen] == [55, 58, 61, 64, 67, 70]


def test_blocks_of_a_common_prefix_count_once(model: LlamaForCausalLM) -> None:
    prefix = torch.randint(2, 97, (2 * PAGE,)).tolist()
    prompts = [prefix + torch.randint(2, 97, (length,)).tolist() for length in (5, 9, 12)]
    seen = batch(model, prompts)
    assert_equal_to_the_engine(seen)
    # The engine finds equal blocks once the first pass has written them.
    assert seen[0][0]["shared_tokens"] == 0
    assert seen[-1][0]["shared_tokens"] == 2 * (2 * PAGE)
