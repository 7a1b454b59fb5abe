"""Counts that profilers of attention got wrong in public, each with its right value worked by hand.

X is B·Hq·Sq·Sk·D. The docstring of each test says where and how it went wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.varlen import varlen_attn

import headscope
from headscope import AttentionProfiler, Budget
from helpers import stub_ops
from helpers.memory import allocated_bytes
from helpers.watching import Watched, watch
from helpers.work import count_pairs, forward_flops, lower_right, upper_left

MEGABYTE = 1_000_000


TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


def qkv(batch: int, heads: int, length: int, dim: int, *, grad: bool = False) -> list[torch.Tensor]:
    return [torch.randn(batch, heads, length, dim, requires_grad=grad) for _ in range(3)]


def by_hand(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5, -1) @ value


def forced_math(program: Callable[[], torch.Tensor]) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return program()


def by_direction(watched: Watched) -> dict[str, dict]:
    calls = watched.calls()
    assert len(calls) == len({call["direction"] for call in calls}), calls
    return {call["direction"]: call for call in calls}


# 1


def test_fused_attention_on_the_cpu_has_its_flops():
    """pytorch#195460: fused attention on the CPU was counted as 0 FLOPs."""
    query, key, value = qkv(1, 12, 64, 64, grad=True)

    calls = by_direction(watch(lambda: F.scaled_dot_product_attention(query, key, value).sum().backward()))

    assert calls["forward"]["variant"] == calls["backward"]["variant"] == "sdpa_flash"
    assert calls["forward"]["flops"] == 12_582_912
    assert calls["backward"]["flops"] == 31_457_280


# 2


def test_outer_and_inner_op_are_one_call():
    """pytorch#134804: fused attention was counted twice, for the composite op and for the op under it."""
    query, key, value = qkv(2, 5, 9, 4)

    assert watch(lambda: F.scaled_dot_product_attention(query, key, value)).call["flops"] == 12_960


def test_math_path_is_one_call():
    """pytorch#134804, on the path where the inner ops are products."""
    query, key, value = qkv(2, 5, 9, 4)

    call = watch(lambda: forced_math(lambda: F.scaled_dot_product_attention(query, key, value))).call

    assert (call["variant"], call["flops"]) == ("sdpa_math", 12_960)


# 3


def test_causal_attention_counts_the_triangle():
    """Megatron-LM#831, flash-attention#573: causal attention was counted dense, so utilisation passed 100 %."""
    query, key, value = qkv(1, 8, 1024, 64)

    call = watch(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)).call

    assert call["flops"] == 2 * 8 * 524_800 * 128 == 1_074_790_400
    assert call["flops_dense"] == 2_147_483_648


# 4


def non_square() -> list[torch.Tensor]:
    return [torch.randn(1, 1, 4, 8), torch.randn(1, 1, 10, 8), torch.randn(1, 1, 10, 16)]


def test_non_square_causal_counts_pv_with_the_value_dim_upper_left():
    """xformers#1402: with another count of queries than keys the PV product was counted wrong."""
    query, key, value = non_square()
    assert forward_flops(count_pairs(4, 10, upper_left), 8, 16) == 480

    assert watch(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)).call["flops"] == 480


def test_non_square_causal_counts_pv_with_the_value_dim_lower_right():
    """xformers#1402, aligned so that the last query sees the last key: an explicit mask on this device."""
    query, key, value = non_square()
    assert forward_flops(count_pairs(4, 10, lower_right(4, 10)), 8, 16) == 1632

    call = watch(lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=causal_lower_right(4, 10))).call

    assert (call["mask"], call["flops"]) == ("counted", 1632)


def test_causal_of_flash_attn_is_aligned_to_the_lower_right():
    """xformers#1402, in an op of flash-attn, whose causal is aligned to the last key."""
    query, key, value = (tensor.transpose(1, 2) for tensor in non_square())
    with stub_ops.flash_attn():
        call = watch(
            lambda: torch.ops.flash_attn._flash_attn_forward(
                query, key, value, 0.0, 1.0, True, -1, -1, 0.0, None, False
            )
        ).call

    assert (call["variant"], call["flops"]) == ("flash_attn_2", 1632)


def test_window_of_flash_attn_is_a_band():
    """xformers#1402, with the band that a sliding window cuts out of the triangle."""
    query, key, value = (torch.randn(1, 10, 2, 8) for _ in range(3))
    with stub_ops.flash_attn():
        call = watch(
            lambda: torch.ops.flash_attn._flash_attn_forward(query, key, value, 0.0, 1.0, True, 3, 0, 0.0, None, False)
        ).call

    # 1 + 2 + 3 keys, then 4 for each of the other 7 queries, in 2 heads
    assert call["flops"] == 2 * (2 * 34) * 16


# 5


def test_one_causal_query_sees_one_key():
    """The same trap: is_causal is aligned to the upper left, so a single query sees the first key only."""
    query, key, value = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 10, 8), torch.randn(1, 1, 10, 8)

    call = watch(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)).call

    assert call["flops"] == forward_flops(1, 8) == 32
    assert call["phase"] == "prefill"


# 6


def test_fused_backward_repeats_the_scores_and_an_eager_one_does_not():
    """flash-attention#741: what a backward counts was in doubt. Fused: 10X, 2X of it recompute. Eager: 8X."""
    query, key, value = qkv(2, 4, 32, 16, grad=True)
    x = 2 * 4 * 32 * 32 * 16

    fused = by_direction(watch(lambda: F.scaled_dot_product_attention(query, key, value).sum().backward()))["backward"]
    eager = by_direction(watch(lambda: by_hand(query, key, value).sum().backward()))["backward"]

    assert (fused["flops"], fused["recompute_flops"]) == (10 * x, 2 * x)
    assert (eager["flops"], eager["recompute_flops"]) == (8 * x, 0)


# 7


def test_packed_batch_has_its_own_lengths():
    """flashinfer#1638: a ragged batch was counted as if each sequence had the longest length."""
    tokens = [torch.randn(192, 8, 64) for _ in range(3)]
    starts = torch.tensor([0, 128, 192], dtype=torch.int32)
    with stub_ops.varlen():
        call = watch(lambda: varlen_attn(*tokens, starts, starts, 128, 128)).call

    assert (call["variant"], call["batch"], call["q_len"]) == ("varlen", 2, 128)
    assert call["flops"] == 41_943_040


def test_packed_batch_of_flash_attn_has_its_own_lengths():
    """flashinfer#1638, in flash-attn's own packed op."""
    tokens = [torch.randn(192, 8, 64) for _ in range(3)]
    starts = torch.tensor([0, 128, 192], dtype=torch.int32)
    with stub_ops.flash_attn():
        call = watch(
            lambda: torch.ops.flash_attn._flash_attn_varlen_forward(*tokens, starts, starts, 128, 128, 0.0, 1.0, False)
        ).call

    assert call["flops"] == 41_943_040


def test_packed_backward_belongs_to_its_forward():
    """flashinfer#1638, and pytorch#144778 for ops that run inside an autograd.Function, without grad mode."""
    tokens = [torch.randn(192, 8, 64, requires_grad=True) for _ in range(3)]
    starts = torch.tensor([0, 128, 192], dtype=torch.int32)
    with stub_ops.varlen():
        calls = by_direction(watch(lambda: varlen_attn(*tokens, starts, starts, 128, 128).sum().backward()))

    assert calls["backward"]["flops"] == 41_943_040 * 10 // 4
    assert calls["backward"]["forward_call_id"] == calls["forward"]["call_id"]
    assert calls["backward"]["layer"] == calls["forward"]["layer"] == "attention[0]"


# 8


def test_fall_to_the_math_path_shows_its_score_matrices_and_its_reason():
    """ComfyUI#15135, transformers#46960: a silent fall to the math path took O(S²) memory."""
    query, key, value = qkv(1, 8, 1024, 64)
    attend = lambda: F.scaled_dot_product_attention(query, key, value)  # noqa: E731

    math = watch(lambda: forced_math(attend)).call
    flash = watch(attend).call

    assert math["variant"] == "sdpa_math"
    assert math["fallback_reason"] == "disabled_by_user"
    # The scores and their softmax.
    assert math["score_bytes"] == 2 * 33_554_432
    assert math["peak_bytes"] > 2 * 33_554_432
    assert (flash["fallback_reason"], flash["score_bytes"]) == (None, 0)
    assert math["peak_bytes"] > 10 * flash["peak_bytes"]


@pytest.mark.parametrize(
    ("reason", "make", "options"),
    [
        pytest.param(
            "rank",
            lambda: [torch.randn(2, 8, 16) for _ in range(3)],
            {},
            marks=pytest.mark.skipif(TORCH >= (2, 14), reason="torch 2.14 runs three axes on the fused kernel"),
        ),
        ("dropout", lambda: qkv(1, 2, 8, 16), {"dropout_p": 0.5}),
        ("head_dims", lambda: [*qkv(1, 2, 8, 16)[:2], torch.randn(1, 2, 8, 12)], {}),
        ("mask_requires_grad", lambda: qkv(1, 2, 8, 16), {"attn_mask": torch.zeros(8, 8, requires_grad=True)}),
    ],
)
def test_reason_of_a_fall_to_the_math_path_is_said(reason, make, options):
    """transformers#46960: nothing said why the fast kernel was not taken."""
    tensors = make()

    call = watch(lambda: F.scaled_dot_product_attention(*tensors, **options)).call

    assert (call["variant"], call["fallback_reason"]) == ("sdpa_math", reason)


# 9


def grouped() -> list[torch.Tensor]:
    return [torch.randn(1, 8, 1024, 64), torch.randn(1, 2, 1024, 64), torch.randn(1, 2, 1024, 64)]


def test_math_path_copies_keys_and_values_for_grouped_queries():
    """pytorch#190523: the math path expands K and V to the query heads, a copy of each."""
    tensors = grouped()

    watched = watch(
        lambda: forced_math(lambda: F.scaled_dot_product_attention(*tensors, enable_gqa=True)), eager="detail"
    )

    assert watched.row["kv_copy_bytes"] == 2 * 2_097_152
    assert (watched.row["heads"], watched.row["kv_heads"]) == (8, 2)


def test_fused_path_copies_nothing_for_grouped_queries():
    """pytorch#190523: the fused kernel reads shared heads in place."""
    tensors = grouped()

    watched = watch(lambda: F.scaled_dot_product_attention(*tensors, enable_gqa=True), eager="detail")

    assert watched.row["variant"] == "sdpa_flash"
    assert watched.row["kv_copy_bytes"] == 0
    assert watched.row["bytes_materialized"] == 0


# 10


def test_mask_of_ones_is_copied_to_floats():
    """transformers#36217: a mask was built although it was all ones; on the CPU it becomes an fp32 mask first."""
    query, key, value = qkv(1, 2, 1024, 64)
    mask = torch.ones(1, 1, 1024, 1024, dtype=torch.bool)

    watched = watch(lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=mask), eager="detail")

    assert watched.row["variant"] == "sdpa_flash"
    assert watched.row["mask_copy_bytes"] == 4_194_304
    # It hides nothing.
    assert watched.row["flops"] == watched.row["flops_dense"]


# 11


def test_masked_fill_out_of_place_writes_and_reads_one_more_score_matrix():
    """huggingface/blog, profiling part 3: an out-of-place masked_fill doubles the traffic of the scores."""
    query, key, value = qkv(1, 2, 1024, 64)
    hidden = torch.ones(1024, 1024, dtype=torch.bool).triu(1)
    added = torch.zeros(1024, 1024).masked_fill(hidden, float("-inf"))
    score_bytes = 2 * 1024 * 1024 * 4

    def filled() -> torch.Tensor:
        return torch.softmax((query @ key.transpose(-2, -1)).masked_fill(hidden, float("-inf")), -1) @ value

    def in_place() -> torch.Tensor:
        return torch.softmax((query @ key.transpose(-2, -1)).add_(added), -1) @ value

    out_of_place_row = watch(filled, eager="detail").row
    in_place_row = watch(in_place, eager="detail").row

    assert out_of_place_row["bytes_materialized"] - in_place_row["bytes_materialized"] == 2 * score_bytes
    assert out_of_place_row["score_bytes"] - in_place_row["score_bytes"] == score_bytes
    assert out_of_place_row["provenance"]["bytes_materialized"] == "modelled"
    # 1 + 2 + … + 1024 pairs in each of 2 heads, in both
    assert out_of_place_row["flops"] == in_place_row["flops"] == forward_flops(2 * 524_800, 64)


# 12


def test_multihead_attention_in_training_is_one_eager_call():
    """nn.MultiheadAttention does not call scaled_dot_product_attention by default, so tools saw nothing."""
    module = nn.MultiheadAttention(64, 4, batch_first=True)
    x = torch.randn(2, 10, 64)

    call = watch(lambda: module(x, x, x), module).call

    assert call["variant"] == "eager"
    assert call["flops"] == 4 * (2 * 4 * 10 * 10 * 16)
    assert (call["batch"], call["heads"], call["q_len"], call["head_dim"]) == (2, 4, 10, 16)


def test_multihead_attention_in_inference_is_one_native_call_without_its_projections():
    """nn.MultiheadAttention's fast path is one op that holds four projections, which are no attention."""
    module = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = torch.randn(2, 10, 64)

    with torch.inference_mode():
        watched = watch(lambda: module(x, x, x))

    assert watched.call["variant"] == "native_mha"
    assert watched.call["flops"] == 4 * (2 * 4 * 10 * 10 * 16)
    # The projected Q, K, V and the output, each 2·10·64 floats.
    assert watched.call["bytes"] == 4 * (2 * 10 * 64) * 4
    assert watched.row["other_ns"] > 0


# 13 and 14


def test_compiled_fused_attention_is_one_call(private_cache):
    """pytorch#148225: attention was missing from profiles of compiled code."""
    query, key, value = qkv(1, 4, 32, 16)
    compiled = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + 1, fullgraph=True)
    compiled(query, key, value)

    call = watch(lambda: compiled(query, key, value)).call

    assert call["op"] == "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert call["flops"] == 4 * (4 * 32 * 32 * 16)


def test_first_run_of_compiled_code_is_no_more_than_its_calls(private_cache):
    """pytorch#148225: what the compiler traces is no execution."""
    query, key, value = qkv(1, 4, 32, 16, grad=True)
    compiled = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 2, fullgraph=True)

    calls = by_direction(watch(lambda: compiled(query, key, value).sum().backward()))

    x = 4 * 32 * 32 * 16
    assert {direction: call["flops"] for direction, call in calls.items()} == {"forward": 4 * x, "backward": 10 * x}
    assert calls["backward"]["forward_call_id"] == calls["forward"]["call_id"]


def test_eager_attention_that_the_compiler_rewrites_is_one_call(private_cache):
    """Inductor replaces hand-written attention by the fused op: counting both, or neither, is wrong."""
    query, key, value = qkv(2, 4, 32, 16)
    # Not the query's own dim: a wrapper that reads shapes would hide the pattern.
    attend = lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1) @ v  # noqa: E731
    compiled = torch.compile(attend, fullgraph=True)

    plain = watch(lambda: attend(query, key, value)).call
    rewritten = watch(lambda: compiled(query, key, value)).call

    assert plain["flops"] == rewritten["flops"] == 4 * (2 * 4 * 32 * 32 * 16)
    assert (plain["variant"], rewritten["variant"]) == ("eager", "sdpa_flash")


def test_compiled_flex_attention_is_no_row_of_zeros(private_cache):
    """pytorch#148225: what cannot be observed must not be shown as 0."""
    from torch.nn.attention.flex_attention import flex_attention

    query, key, value = qkv(1, 2, 128, 32)
    compiled = torch.compile(flex_attention)
    with torch.inference_mode():
        watched = watch(lambda: compiled(query, key, value))

    assert watched.calls() == []
    assert watched.stats.total["flops"] is None


# 17


@pytest.mark.parametrize("form", ["operator", "einsum"])
def test_hand_written_attention_is_counted(form):
    """calflops#48, DeepSpeed#4723: `@` and einsum were ignored."""
    query, key, value = qkv(2, 4, 32, 16)

    def einsum() -> torch.Tensor:
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key)
        return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), value)

    call = watch(einsum if form == "einsum" else lambda: by_hand(query, key, value)).call

    assert (call["variant"], call["flops"]) == ("eager", 4 * (2 * 4 * 32 * 32 * 16))


# 18


def test_decode_reads_the_cached_keys_and_values():
    """sycl-tla#778: the bandwidth of decoding left out the cached keys and values."""
    query = torch.randn(1, 8, 1, 64)
    key, value = torch.randn(1, 8, 4096, 64), torch.randn(1, 8, 4096, 64)

    call = watch(lambda: F.scaled_dot_product_attention(query, key, value)).call

    assert call["phase"] == "decode"
    assert call["bytes"] == 16_781_312
    assert call["flops"] == 8_388_608
    assert call["flops_per_byte"] == pytest.approx(0.49988, abs=5e-6)


# 25


def test_memory_does_not_grow_with_the_number_of_calls():
    """pytorch#193348, prismaquant#899: memory grew with each call and stopping took minutes."""
    query, key, value = qkv(1, 1, 4, 8)

    def run(calls: int) -> None:
        for _ in range(calls):
            F.scaled_dot_product_attention(query, key, value)

    with torch.inference_mode(), AttentionProfiler(keep_calls=10) as profiler:
        # The warm-up fills the rows of a step.
        for _ in range(2):
            run(20_000)
            profiler.get_stats()
        early_bytes = allocated_bytes()
        run(60_000)
        late_bytes = allocated_bytes()

    assert profiler.get_stats().total["calls"] == 100_000
    # A record a call would be 10 MB and more.
    assert late_bytes - early_bytes < MEGABYTE


# 26

AFTER_THE_SCOPE = """
import json, torch
from headscope import AttentionProfiler

query = torch.randn(1, 1, 4, 8)

def attend():
    torch.nn.functional.scaled_dot_product_attention(query, query, query)

with AttentionProfiler() as profiler:
    attend()
seen = profiler.get_stats().total["calls"]
overhead = profiler.get_stats().diagnostics["overhead_ns"]
for _ in range(1000):
    attend()

hooked = [
    name for name in ("aten::add.Tensor", "aten::mm", "aten::bmm", "aten::_softmax")
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "BackendSelect")
]
stats = profiler.get_stats()
print(json.dumps({"hooked": hooked, "seen": seen, "after": stats.total["calls"],
                  "worked": stats.diagnostics["overhead_ns"] - overhead}))
"""


def test_stopped_profiler_leaves_no_work_behind(run_python):
    """pytorch#144455: the program stayed slow after the profiler had stopped. (The benchmarks time it.)"""
    process = run_python(AFTER_THE_SCOPE)
    assert process.returncode == 0, process.stderr
    seen = json.loads(process.stdout)

    # Ops without a hook have none during the scope either.
    assert seen["hooked"] == ["aten::bmm", "aten::_softmax"]
    assert seen["seen"] == seen["after"] == 1
    assert seen["worked"] == 0


# 27


@pytest.mark.parametrize("attend", [by_hand, lambda *qkv: forced_math(lambda: F.scaled_dot_product_attention(*qkv))])
def test_vmap_of_products_is_one_call(attend):
    """functorch: one call was many events, one for each level of its transforms."""
    query, key, value = (torch.randn(3, 2, 4, 8, 16) for _ in range(3))

    call = watch(lambda: torch.vmap(attend)(query, key, value)).call

    assert call["flops"] == 4 * (3 * 2 * 4 * 8 * 8 * 16)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_the_fused_op_is_a_call_for_each_time_that_torch_runs_it():
    """functorch: torch has no batching rule for the fused CPU op and runs it once a sample, never more."""
    query, key, value = (torch.randn(3, 2, 4, 8, 16) for _ in range(3))

    watched = watch(lambda: torch.vmap(F.scaled_dot_product_attention)(query, key, value))

    assert [call["flops"] for call in watched.calls()] == 3 * [4 * (2 * 4 * 8 * 8 * 16)]


def test_autocast_is_one_call():
    """Autocast calls the op a second time with converted tensors."""
    query, key, value = qkv(1, 2, 8, 16)
    with torch.autocast("cpu", torch.bfloat16):
        call = watch(lambda: F.scaled_dot_product_attention(query, key, value)).call

    assert (call["dtype"], call["flops"]) == ("bfloat16", 4 * (2 * 8 * 8 * 16))


def test_fake_tensors_are_no_call():
    """Shape propagation was counted as work."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def program() -> torch.Size:
        with FakeTensorMode():
            return F.scaled_dot_product_attention(*qkv(1, 2, 8, 16)).shape

    watched = watch(program)

    assert watched.result == (1, 2, 8, 16)
    assert watched.calls() == []


def test_meta_tensors_are_no_call():
    """Shape propagation was counted as work."""
    tensors = [torch.randn(1, 2, 8, 16, device="meta") for _ in range(3)]

    assert watch(lambda: F.scaled_dot_product_attention(*tensors)).calls() == []
    assert watch(lambda: by_hand(*tensors)).calls() == []


def test_dynamic_compilation_makes_as_many_graphs_with_a_profiler_as_without(private_cache):
    """Asking a FakeTensor for its sizes pins them: one graph becomes one a length."""
    from torch._dynamo.testing import CompileCounter

    def graphs(profiled: bool) -> int:
        torch._dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(F.scaled_dot_product_attention, backend=counter, dynamic=True)

        def lengths() -> None:
            for length in (5, 6, 7, 8, 9):
                compiled(*qkv(1, 2, length, 16))

        if profiled:
            assert len(watch(lengths).calls()) == 5
        else:
            lengths()
        return counter.frame_count

    assert graphs(True) == graphs(False) == 1


# 28


def test_budgets_of_work_memory_and_backend_are_exact():
    """NeMo-Guardrails#1970: budgets flaked, because they were wall-clock times."""
    query, key, value = qkv(1, 12, 64, 64)
    stats = watch(lambda: F.scaled_dot_product_attention(query, key, value)).stats
    stored = 4 * 4 * 12 * 64 * 64

    exact = {"max_call_flops": 12_582_912, "max_total_flops": 12_582_912, "max_step_bytes": stored}
    assert stats.check(Budget(**exact, forbid_variants=["sdpa_math"])) == []
    for limit, value_of in exact.items():
        assert [violation.limit for violation in stats.check(Budget(**{limit: value_of - 1}))] == [limit]
    assert len(stats.check(Budget(forbid_variants=["sdpa_flash"]))) == 1


def test_time_budget_needs_its_samples():
    """NeMo-Guardrails#1970: one slow call must not fail a budget, so the median of enough calls is asked for."""
    tensors = qkv(1, 2, 8, 16)

    def stats_of(calls: int):
        with headscope.layer("block.0"):
            return watch(lambda: [F.scaled_dot_product_attention(*tensors) for _ in range(calls)]).stats

    budget = Budget(max_p50_us=1e9, min_samples=5)
    (violation,) = stats_of(3).check(budget)
    assert violation.limit == "max_p50_us"
    assert stats_of(20).check(budget) == []


# 29


def test_value_dim_of_its_own_falls_to_the_math_path_and_says_so():
    """DeepSeek-V3 on a CPU: values narrower than keys fall to the math path unseen."""
    query, key, value = torch.randn(1, 4, 8, 24), torch.randn(1, 4, 8, 24), torch.randn(1, 4, 8, 12)

    call = watch(lambda: F.scaled_dot_product_attention(query, key, value)).call

    assert (call["variant"], call["fallback_reason"]) == ("sdpa_math", "head_dims")
    assert call["flops"] == forward_flops(4 * 8 * 8, 24, 12)


# 30


@pytest.mark.parametrize("eager", ["basic", "detail"])
def test_attention_with_sinks_counts_pairs_of_the_keys_alone(eager):
    """gpt-oss: the softmax runs over one column more than there are keys."""
    query, key, value = qkv(2, 4, 32, 16, grad=True)
    sinks = torch.randn(1, 4, 1, 1).expand(2, 4, 32, 1)

    def program() -> None:
        scores = torch.cat([query @ key.transpose(-2, -1), sinks], -1)
        probabilities = torch.softmax(scores, -1)[..., :-1]
        (probabilities @ value).sum().backward()

    calls = by_direction(watch(program, eager=eager))

    x = 2 * 4 * 32 * 32 * 16
    assert calls["forward"]["variant"] == "eager"
    assert calls["forward"]["kv_len"] == 32
    assert {direction: call["flops"] for direction, call in calls.items()} == {"forward": 4 * x, "backward": 8 * x}
