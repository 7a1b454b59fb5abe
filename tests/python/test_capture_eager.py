"""Attention written by hand: each form is one call forward and one backward, and what is no attention is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.watching import Watched, watch
from helpers.work import eager_backward_flops, forward_flops

B, H, SQ, SK, D, DV = 2, 4, 12, 20, 8, 6
X_PAIRS = B * H * SQ * SK

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


def scaled(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * D**-0.5, dim=-1) @ v


def scaled_query(q, k, v):
    return torch.softmax((q * D**-0.5) @ k.mT, dim=-1) @ v


def matmul(q, k, v):
    return torch.matmul(torch.matmul(q, k.transpose(2, 3)).div(D**0.5).softmax(3), v)


def functional_softmax_in_float32(q, k, v):
    return torch.matmul(F.softmax(torch.matmul(q, k.mT), dim=-1, dtype=torch.float32).to(q.dtype), v)


def einsum(q, k, v):
    return torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1), v)


def einsum_with_sequence_first(q, k, v):
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).transpose(1, 2)


def masked(q, k, v):
    hidden = torch.ones(SQ, SK, dtype=torch.bool).triu(1)
    return torch.softmax((q @ k.mT).masked_fill(hidden, float("-inf")), -1) @ v


def added(q, k, v):
    bias = torch.zeros(B, 1, SQ, SK)
    return torch.softmax(q @ k.mT + bias, -1) @ v


def soft_capped(q, k, v):
    return torch.softmax(30 * torch.tanh(q @ k.mT / 30), -1) @ v


def dropped(q, k, v):
    return F.dropout(torch.softmax(q @ k.mT, -1), 0.1, training=True) @ v


FORMS: dict[str, Attend] = {
    form.__name__: form
    for form in (
        operator,
        scaled,
        scaled_query,
        matmul,
        functional_softmax_in_float32,
        einsum,
        einsum_with_sequence_first,
        masked,
        added,
        soft_capped,
        dropped,
    )
}


def operands(*, grad: bool = False) -> list[torch.Tensor]:
    shapes = [(B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV)]
    return [torch.randn(shape, requires_grad=grad) for shape in shapes]


def forward_and_backward(attend: Attend, tensors: list[torch.Tensor], **options) -> Watched:
    watched = watch(lambda: attend(*tensors).square().sum().backward(), **options)
    assert [call["direction"] for call in watched.calls()] == ["forward", "backward"]
    assert watched.stats["diagnostics"]["chains_unfinished"] == 0
    return watched


@pytest.mark.parametrize("form", FORMS)
def test_forward_without_gradients_is_one_call_of(form):
    tensors = operands()
    with torch.inference_mode():
        call = watch(lambda: FORMS[form](*tensors)).call

    assert (call["variant"], call["op"], call["direction"]) == ("eager", "bmm+softmax+bmm", "forward")
    geometry = [call[key] for key in ("batch", "heads", "q_len", "kv_len", "head_dim", "head_dim_v")]
    assert geometry == [B, H, SQ, SK, D, DV]
    assert call["flops_dense"] == forward_flops(X_PAIRS, D, DV)
    assert call["bytes"] == 4 * sum(tensor.numel() for tensor in tensors) + 4 * B * H * SQ * DV


@pytest.mark.parametrize("eager", ["basic", "detail"])
@pytest.mark.parametrize("form", FORMS)
def test_training_is_one_forward_and_one_backward_call_of(form, eager):
    watched = forward_and_backward(FORMS[form], operands(grad=True), eager=eager)

    forward, backward = watched.calls()
    assert forward["flops_dense"] == forward_flops(X_PAIRS, D, DV)
    assert backward["flops_dense"] == eager_backward_flops(X_PAIRS, D, DV)
    assert backward["recompute_flops"] == 0
    assert backward["forward_call_id"] == forward["call_id"]
    assert backward["layer"] == forward["layer"] == "attention[0]"


@pytest.mark.parametrize("length", [8, 16])
def test_lengths_equal_to_the_head_dim_are_told_apart(length):
    """Shapes alone say nothing where all are equal: storages must."""
    tensors = [torch.randn(1, 2, length, length, requires_grad=True) for _ in range(3)]

    forward, backward = forward_and_backward(operator, tensors).calls()

    assert forward["flops"] == forward_flops(2 * length**2, length)
    assert backward["flops"] == eager_backward_flops(2 * length**2, length)


def test_layers_in_a_row_are_a_call_each_forward_and_backward():
    tensors = [torch.randn(B, H, SQ, D, requires_grad=True) for _ in range(3)]

    def program() -> None:
        hidden = tensors[0]
        for _ in range(4):
            hidden = scaled(hidden, tensors[1], tensors[2]) + hidden
        hidden.sum().backward()

    watched = watch(program)

    assert [call["layer"] for call in watched.calls("forward")] == [f"attention[{i}]" for i in range(4)]
    assert [call["layer"] for call in watched.calls("backward")] == [f"attention[{i}]" for i in (3, 2, 1, 0)]
    assert {call["flops"] for call in watched.calls("backward")} == {eager_backward_flops(B * H * SQ * SQ, D)}


# Products of three axes.


def test_bmm_with_merged_heads_is_one_call():
    q, k, v = (tensor.flatten(0, 1).requires_grad_() for tensor in operands())

    def attend(q, k, v):
        return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)

    forward, backward = forward_and_backward(attend, [q, k, v]).calls()

    assert forward["batch"] * forward["heads"] == B * H
    assert forward["flops"] == forward_flops(X_PAIRS, D, DV)
    assert backward["flops"] == eager_backward_flops(X_PAIRS, D, DV)


def test_bmm_in_a_module_with_known_heads_has_its_batch():
    class Merged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads = H
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(H * D, H * D) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def split(tensor: torch.Tensor) -> torch.Tensor:
                return tensor.view(B, -1, H, D).transpose(1, 2).reshape(B * H, -1, D)

            q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
            return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v)

    module = Merged()

    call = watch(lambda: module(torch.randn(B, SQ, H * D)), module).call

    assert (call["layer"], call["batch"], call["heads"]) == ("Merged", B, H)


def test_baddbmm_with_a_bias_is_one_call():
    q, k, v = (tensor.flatten(0, 1).requires_grad_() for tensor in operands())
    bias = torch.randn(B * H, 1, SK)

    def attend(q, k, v):
        return torch.bmm(torch.baddbmm(bias, q, k.transpose(1, 2), beta=0.5, alpha=D**-0.5).softmax(-1), v)

    forward, backward = forward_and_backward(attend, [q, k, v]).calls()

    assert forward["flops"] == forward_flops(X_PAIRS, D, DV)
    assert backward["flops"] == eager_backward_flops(X_PAIRS, D, DV)


def test_bmm_into_a_given_tensor_is_one_call():
    q, k, v = (tensor.flatten(0, 1) for tensor in operands())
    scores, out = torch.empty(B * H, SQ, SK), torch.empty(B * H, SQ, DV)

    def program() -> None:
        torch.bmm(q, k.mT, out=scores)
        torch.bmm(scores.softmax(-1), v, out=out)

    assert watch(program).call["flops"] == forward_flops(X_PAIRS, D, DV)


# Grouped queries.


def grouped_operands() -> list[torch.Tensor]:
    """8 query heads on 2 key/value heads."""
    shapes = [(B, 2, 4, SQ, D), (B, 2, SK, D), (B, 2, SK, DV)]
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def grouped_einsum(q, k, v):
    scores = torch.einsum("bkgqd,bksd->bkgqs", q, k)
    return torch.einsum("bkgqs,bksd->bkgqd", scores.softmax(-1), v)


def test_grouped_query_einsum_is_one_call_with_its_shared_heads():
    forward, backward = forward_and_backward(grouped_einsum, grouped_operands()).calls()

    pairs = B * 8 * SQ * SK
    assert (forward["heads"], forward["kv_heads"], forward["q_len"], forward["kv_len"]) == (8, 2, SQ, SK)
    assert forward["flops"] == forward_flops(pairs, D, DV)
    assert backward["flops"] == eager_backward_flops(pairs, D, DV)


def test_keys_repeated_for_grouped_queries_are_executed_heads_and_copies():
    query = torch.randn(B, 8, SQ, D)
    key, value = torch.randn(B, 2, SK, D), torch.randn(B, 2, SK, DV)

    def program() -> torch.Tensor:
        repeated = [t[:, :, None].expand(B, 2, 4, *t.shape[2:]).reshape(B, 8, *t.shape[2:]) for t in (key, value)]
        return operator(query, *repeated)

    row = watch(program, eager="detail").row

    assert (row["heads"], row["kv_heads"]) == (8, 8)
    assert row["kv_copy_bytes"] == 4 * B * 8 * SK * (D + DV)


# Detail.


def test_detail_counts_a_mask_exactly_and_each_score_matrix_once_an_op():
    hidden = torch.ones(SQ, SK, dtype=torch.bool).triu(1)
    bias = torch.zeros(SQ, SK).masked_fill(hidden, float("-inf"))
    tensors = operands()

    def program() -> torch.Tensor:
        return torch.softmax((tensors[0] @ tensors[1].mT) * 0.5 + bias, -1) @ tensors[2]

    row = watch(program, eager="detail").row

    admitted = B * H * sum(min(i + 1, SK) for i in range(SQ))
    assert (row["mask"], row["flops"]) == ("counted", forward_flops(admitted, D, DV))
    # Written by the product, the scale, the mask and the softmax; read by all but the first, and by the second product.
    scores = 4 * X_PAIRS
    assert row["bytes_materialized"] == (4 + 4) * scores
    assert row["score_bytes"] == 4 * scores
    assert row["provenance"]["bytes_materialized"] == "modelled"
    assert row["bytes"] == 4 * (sum(t.numel() for t in tensors) + B * H * SQ * DV) + 4 * SQ * SK


def test_basic_says_that_its_materialised_bytes_are_estimated():
    tensors = operands()

    row = watch(lambda: scaled(*tensors)).row

    # The scale was not seen, but the softmax's input is another tensor than the product's: a read and a write.
    assert row["bytes_materialized"] == (3 + 3) * 4 * X_PAIRS
    assert row["provenance"]["bytes_materialized"] == "estimated"
    assert row["mask"] == "unseen"


def test_off_sees_fused_attention_alone():
    tensors = [torch.randn(B, H, SQ, D) for _ in range(3)]

    def program() -> None:
        operator(*tensors)
        F.scaled_dot_product_attention(*tensors)

    assert watch(program, eager="off").call["variant"] == "sdpa_flash"


def test_masked_backward_counts_the_pairs_of_its_forward():
    forward, backward = forward_and_backward(masked, operands(grad=True), eager="detail").calls()

    admitted = B * H * sum(min(i + 1, SK) for i in range(SQ))
    assert forward["flops"] == forward_flops(admitted, D, DV)
    assert backward["flops"] == eager_backward_flops(admitted, D, DV)


# Which gradients are made.


def test_frozen_query_and_key_leave_the_backward_of_the_values_out_of_doubt():
    """No softmax backward runs, and one product is no sign of attention: nothing is counted."""
    q, k, v = operands()
    v.requires_grad_()

    watched = watch(lambda: operator(q, k, v).sum().backward())

    assert [call["direction"] for call in watched.calls()] == ["forward"]


def test_frozen_keys_and_values_cost_the_gradient_of_the_query_alone():
    q, k, v = operands()
    q.requires_grad_()

    watched = watch(lambda: operator(q, k, v).square().sum().backward())

    # dP and dQ.
    assert watched.calls("backward")[0]["flops"] == 2 * X_PAIRS * (DV + D)


# torch's own modules.


def module_input() -> torch.Tensor:
    return torch.randn(B, SQ, H * D)


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_in_training_is_one_forward_and_one_backward(batch_first):
    module = nn.MultiheadAttention(H * D, H, batch_first=batch_first)
    x = module_input() if batch_first else module_input().transpose(0, 1)

    watched = watch(lambda: module(x, x, x)[0].square().sum().backward(), module)

    forward, backward = watched.calls()
    pairs = B * H * SQ * SQ
    assert (forward["variant"], backward["variant"]) == ("eager", "eager")
    assert (forward["batch"], forward["heads"]) == (B, H)
    assert forward["flops"] == forward_flops(pairs, D)
    assert backward["flops"] == eager_backward_flops(pairs, D)
    assert forward["layer"] == backward["layer"] == "MultiheadAttention"


def test_multihead_attention_without_weights_is_fused():
    module = nn.MultiheadAttention(H * D, H, batch_first=True)
    x = module_input()

    calls = watch(lambda: module(x, x, x, need_weights=False)[0].sum().backward(), module).calls()

    assert [call["variant"] for call in calls] == ["sdpa_flash", "sdpa_flash"]
    assert calls[0]["flops"] == forward_flops(B * H * SQ * SQ, D)


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_in_inference_takes_the_fast_path_as_one_call(need_weights):
    module = nn.MultiheadAttention(H * D, H, batch_first=True).eval()
    x = module_input()

    with torch.inference_mode():
        call = watch(lambda: module(x, x, x, need_weights=need_weights), module).call

    assert (call["variant"], call["heads"], call["head_dim"]) == ("native_mha", H, D)
    assert call["flops"] == forward_flops(B * H * SQ * SQ, D)


def test_multihead_attention_on_other_keys_is_cross_attention():
    module = nn.MultiheadAttention(H * D, H, batch_first=True)
    x, other = module_input(), torch.randn(B, SK, H * D)

    call = watch(lambda: module(x, other, other), module).call

    assert (call["phase"], call["q_len"], call["kv_len"]) == ("cross", SQ, SK)
    assert call["flops"] == forward_flops(B * H * SQ * SK, D)


def test_encoder_layer_in_inference_is_one_native_call():
    layer = nn.TransformerEncoderLayer(H * D, H, 64, batch_first=True).eval()
    x = module_input()

    with torch.inference_mode():
        call = watch(lambda: layer(x), layer).call

    assert (call["variant"], call["layer"]) == ("native_mha", "self_attn")
    assert call["flops"] == forward_flops(B * H * SQ * SQ, D)


def test_encoder_layer_in_training_is_a_forward_and_a_backward():
    layer = nn.TransformerEncoderLayer(H * D, H, 64, batch_first=True, dropout=0.0)
    x = module_input()

    calls = watch(lambda: layer(x).square().sum().backward(), layer).calls()

    assert [call["direction"] for call in calls] == ["forward", "backward"]
    assert {call["layer"] for call in calls} == {"self_attn"}


# What is no attention.


def test_router_of_experts_is_no_attention():
    x = torch.randn(B, SQ, D, requires_grad=True)
    gate, experts = torch.randn(D, 4, requires_grad=True), torch.randn(4, D, D, requires_grad=True)

    def program() -> None:
        weights = torch.softmax(x @ gate, -1)
        outputs = torch.einsum("bsd,edf->bsef", x, experts)
        (weights[..., None] * outputs).sum(2).square().sum().backward()

    watched = watch(program)

    assert watched.calls() == []
    assert watched.stats["diagnostics"]["chains_unfinished"] == 0


def test_batched_router_with_a_product_of_its_weights_is_no_attention_without_scores():
    """A softmax over choices that no batched product made."""
    x, gate = torch.randn(B, SQ, D), nn.Linear(D, 4)
    experts = torch.randn(B, 4, DV)

    assert watch(lambda: torch.bmm(gate(x).softmax(-1), experts)).calls() == []


def test_classifier_is_no_attention():
    model = nn.Sequential(nn.Linear(D, 16), nn.GELU(), nn.Linear(16, 10))
    x = torch.randn(B, SQ, D)

    def program() -> None:
        F.cross_entropy(model(x).flatten(0, 1), torch.zeros(B * SQ, dtype=torch.long)).backward()
        model(x).softmax(-1)

    watched = watch(program)

    assert watched.calls() == []
    assert watched.stats["diagnostics"]["chains_unfinished"] == 0


def test_products_of_rotary_angles_are_no_attention():
    frequencies, positions = torch.randn(B, D // 2, 1), torch.arange(SQ).float().expand(B, 1, SQ)
    tensors = [torch.randn(B, H, SQ, D) for _ in range(3)]

    def program() -> torch.Tensor:
        angles = (frequencies @ positions).transpose(1, 2)
        rotated = tensors[0] * torch.cat([angles, angles], -1).cos()[:, None]
        return operator(rotated, *tensors[1:])

    assert watch(program).call["flops"] == forward_flops(B * H * SQ * SQ, D)


def test_linear_attention_is_no_softmax_attention():
    q, k, v = (torch.randn(B, H, SQ, D, requires_grad=True) for _ in range(3))

    def program() -> None:
        state = k.softmax(-2).transpose(-2, -1) @ v
        (q.softmax(-1) @ state).sum().backward()

    watched = watch(program)

    assert watched.calls() == []


def test_products_in_a_row_are_no_attention():
    x = torch.randn(B, SQ, SQ, requires_grad=True)

    assert watch(lambda: (x @ x @ x @ x).sum().backward()).calls() == []


def test_softmax_of_a_product_without_a_second_product_is_counted_as_unfinished():
    q, k = torch.randn(B, H, SQ, D), torch.randn(B, H, SK, D)

    watched = watch(lambda: (q @ k.mT).softmax(-1).argmax(-1))

    assert watched.calls() == []
    assert watched.stats["diagnostics"]["chains_unfinished"] == 1


def test_finished_chains_are_not_counted_as_unfinished():
    tensors = operands()

    watched = watch(lambda: [operator(*tensors) for _ in range(10)])

    assert len(watched.calls()) == 10
    assert watched.stats["diagnostics"]["chains_unfinished"] == 0
