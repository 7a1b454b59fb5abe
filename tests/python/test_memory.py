"""Where memory goes: peaks against a second counter, spikes and their causes, the scope, torch.profiler beside it."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from headscope import AttentionProfiler

MIB = 1 << 20


def heads(length: int, *, count: int = 8, dim: int = 64, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(1, count, length, dim, dtype=dtype)


def torch_peak(program) -> int:
    """Rise of the memory in use while `program` runs, from the allocations that torch.profiler lists."""
    with torch.profiler.profile(profile_memory=True) as prof:
        program()
    level = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            level += event.nbytes()
            peak = max(peak, level)
    return peak


@pytest.mark.parametrize("length", [512, 1024])
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=["math", "flash"])
def test_peak_of_a_call_is_that_of_an_independent_counter(length, backend):
    x = heads(length)

    def program():
        sdpa(x, x, x)

    with sdpa_kernel(backend):
        program()
        expected = torch_peak(program)
        with AttentionProfiler() as prof:
            program()

    (row,) = prof.get_stats().attention_breakdown
    assert row["peak_bytes"] == expected
    assert (row["score_bytes"] >= 8 * length * length * 4) == (backend is SDPBackend.MATH)


class Layer(torch.nn.Module):
    def __init__(self, backend: SDPBackend) -> None:
        super().__init__()
        self.backend = backend
        self.self_attn = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(self.backend):
            return self.self_attn(x)


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_dim = 4, 16
        self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (4, 16)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return sdpa(q, k, v).transpose(1, 2).flatten(-2)


def test_spike_is_attributed_to_the_layer_that_is_forced_to_the_math_path():
    flash, math = SDPBackend.FLASH_ATTENTION, SDPBackend.MATH
    model = torch.nn.Sequential(Layer(flash), Layer(flash), Layer(math), Layer(flash))
    x = torch.ones(1, 512, 64)

    with AttentionProfiler(model) as prof:
        model(x)
        prof.step()
        model(x).sum().backward()

    memory = prof.get_stats().memory
    spike = memory["spikes"][0]
    assert spike["layer"] == "2.self_attn"
    assert spike["cause"] == "score_matrix"
    assert spike["parts"]["score_matrix"] >= 4 * 512 * 512 * 4
    peaks = {layer["layer"]: layer["peak_bytes"] for layer in memory["layers"]}
    assert max(peaks, key=peaks.get) == "2.self_attn"


def causes(program, **options) -> dict[str, int]:
    """Parts of the largest spike."""
    with AttentionProfiler(**options) as prof:
        program()
    return prof.get_stats().memory["spikes"][0]["parts"]


def test_math_path_with_grouped_queries_shows_its_copies_of_keys_and_values():
    q, k = heads(1024), heads(1024, count=2)

    with sdpa_kernel(SDPBackend.MATH):
        parts = causes(lambda: sdpa(q, k, k, enable_gqa=True))

    assert parts["kv_copy"] == 2 * 2_097_152


def test_math_path_in_bfloat16_shows_its_upcasts():
    x = heads(256, dtype=torch.bfloat16)

    with sdpa_kernel(SDPBackend.MATH):
        parts = causes(lambda: sdpa(x, x, x))

    assert parts["upcast"] == 3 * 8 * 256 * 64 * 4


def test_math_path_with_a_bool_mask_shows_the_mask_of_numbers():
    x, mask = heads(256), torch.ones(1, 1, 256, 256, dtype=torch.bool)

    with sdpa_kernel(SDPBackend.MATH):
        parts = causes(lambda: sdpa(x, x, x, attn_mask=mask))

    assert parts["mask"] >= 256 * 256 * 4


def test_backward_names_its_gradients():
    x = heads(64).requires_grad_()

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), AttentionProfiler() as prof:
        sdpa(x, x, x).sum().backward()

    (spike,) = (s for s in prof.get_stats().memory["spikes"] if s["direction"] == "backward")
    assert spike["parts"]["gradient"] == 3 * 8 * 64 * 64 * 4


def test_expansion_before_a_fused_op_is_a_spike_of_its_own():
    q, k = heads(512), heads(512, count=2)

    def program():
        expanded = k[:, :, None].expand(1, 2, 4, 512, 64).reshape(1, 8, 512, 64)
        sdpa(q, expanded, expanded)

    with AttentionProfiler(eager="detail") as prof:
        program()

    (spike,) = (s for s in prof.get_stats().memory["spikes"] if s["cause"] == "kv_copy")
    assert spike["bytes"] == 8 * 512 * 64 * 4


def test_heads_share_the_bytes_of_their_layer():
    x = heads(64, count=3)
    with AttentionProfiler() as prof:
        sdpa(x, x, x)
    stats = prof.get_stats()
    assert sum(head["allocated_bytes"] for head in stats.heads) == stats.total["allocated_bytes"] > 0


# The whole scope.


def test_peak_of_the_scope_is_what_was_in_use_at_once():
    with AttentionProfiler(memory="scope") as prof:
        first = torch.empty(3 * MIB, dtype=torch.uint8)
        del first
        second = torch.empty(2 * MIB, dtype=torch.uint8)
        third = torch.empty(2 * MIB, dtype=torch.uint8)
        del second, third
    memory = prof.get_stats().memory
    assert memory["peak_bytes"] == 4 * MIB
    assert memory["devices"] == [{"device": "cpu", "peak_bytes": 4 * MIB}]
    assert memory["incomplete"] is None


def test_scope_measures_its_calls_as_ever():
    x = heads(512)
    rows = []
    for memory in ("calls", "scope"):
        with AttentionProfiler(memory=memory) as prof:
            sdpa(x, x, x)
        (row,) = prof.get_stats().attention_breakdown
        rows.append((row["peak_bytes"], row["allocated_bytes"], row["score_bytes"]))
    assert rows[0] == rows[1]


def test_scope_counts_the_backward_passes_that_it_starts():
    x = torch.ones(MIB, requires_grad=True)
    with AttentionProfiler(memory="scope") as prof:
        x.exp().sum().backward()
    assert prof.get_stats().memory["peak_bytes"] >= 2 * 4 * MIB  # the exponential, then the gradient


def test_nested_scopes_see_their_own_peaks():
    with AttentionProfiler(memory="scope") as outer:
        kept = torch.empty(5 * MIB, dtype=torch.uint8)
        with AttentionProfiler(memory="scope") as inner:
            torch.empty(1 * MIB, dtype=torch.uint8)
        del kept
    assert inner.get_stats().memory["peak_bytes"] == 1 * MIB
    assert outer.get_stats().memory["peak_bytes"] == 6 * MIB


def test_paused_scope_counts_nothing():
    with AttentionProfiler(memory="scope") as prof:
        with prof.paused():
            torch.empty(5 * MIB, dtype=torch.uint8)
        torch.empty(1 * MIB, dtype=torch.uint8)
    assert prof.get_stats().memory["peak_bytes"] == 1 * MIB


def test_reset_forgets_the_peak():
    with AttentionProfiler(memory="scope") as prof:
        torch.empty(5 * MIB, dtype=torch.uint8)
        prof.reset()
        torch.empty(1 * MIB, dtype=torch.uint8)
    assert prof.get_stats().memory["peak_bytes"] == 1 * MIB


def test_scope_stopped_by_another_thread_stops_counting():
    prof = AttentionProfiler(memory="scope")
    prof.start()
    thread = threading.Thread(target=prof.stop)
    thread.start()
    thread.join()
    torch.empty(5 * MIB, dtype=torch.uint8)
    assert prof.get_stats().memory["peak_bytes"] < MIB


def test_without_scope_the_peak_is_unknown_with_a_reason():
    with AttentionProfiler() as prof:
        pass
    memory = prof.get_stats().memory
    assert memory["peak_bytes"] is None
    assert "scope" in memory["incomplete"]


def test_memory_off_leaves_the_section_out_with_a_reason():
    with AttentionProfiler(memory="off") as prof:
        pass
    stats = prof.get_stats()
    assert stats.memory is None
    assert "memory" in stats.meta["absent_sections"]


# torch.profiler has the same place for memory reports.


def test_question_for_the_active_profiler_is_answered_inside_the_scope():
    with AttentionProfiler(memory="scope"):
        assert torch._C._autograd._profiler_type().name == "NONE"
        assert not torch.autograd._profiler_enabled()


def test_torch_profiler_starts_and_stops_inside_the_scope():
    x = heads(64)
    with AttentionProfiler(memory="scope") as prof:
        with torch.profiler.profile(profile_memory=True) as inner:
            sdpa(x, x, x)
        sdpa(x, x, x)
    assert any("attention" in event.key for event in inner.key_averages())
    stats = prof.get_stats()
    assert stats.total["calls"] == 2
    assert "profiler of torch" in stats.memory["incomplete"]


def test_torch_profiler_that_starts_inside_and_goes_on_is_left_alone():
    inner = torch.profiler.profile(profile_memory=True)
    with AttentionProfiler(memory="scope"):
        inner.start()
    x = heads(64)
    sdpa(x, x, x)
    inner.stop()
    assert any("attention" in event.key for event in inner.key_averages())


def test_scope_inside_torch_profiler_steps_aside_and_says_so():
    x = heads(64)
    with torch.profiler.profile(profile_memory=True) as outer, AttentionProfiler(memory="scope") as prof:
        sdpa(x, x, x)
    assert any("attention" in event.key for event in outer.key_averages())
    stats = prof.get_stats()
    assert stats.total["calls"] == 1
    assert stats.total["peak_bytes"] is None
    assert "profiler of torch" in stats.memory["incomplete"]


def test_torch_profiler_that_stops_inside_the_scope_stops_well():
    outer = torch.profiler.profile(profile_memory=True)
    outer.start()
    with AttentionProfiler(memory="scope"):
        outer.stop()
        torch.empty(MIB, dtype=torch.uint8)
    with torch.profiler.profile(profile_memory=True) as later:
        torch.empty(MIB, dtype=torch.uint8)
    assert later.key_averages()


@pytest.mark.parametrize("memory", ["calls", "scope"])
def test_torch_profiler_works_after_the_scope(memory):
    with AttentionProfiler(memory=memory):
        x = heads(64)
        sdpa(x, x, x)
    with torch.profiler.profile(profile_memory=True) as later:
        sdpa(x, x, x)
    assert any("attention" in event.key for event in later.key_averages())
