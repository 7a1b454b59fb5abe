"""Recomputation that ends early: a non-reentrant checkpoint stops once the last tensor that it needs is there."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from headscope import AttentionProfiler

B, H, S, D = 1, 2, 4, 8
PAIRS = B * H * S * S


def by_hand(q, k, v):
    return (q @ k.transpose(-1, -2) * D**-0.5).softmax(-1) @ v


def math_path(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v)


class Attention(nn.Module):
    def __init__(self, attend) -> None:
        super().__init__()
        self.num_heads = H
        self.q_proj = self.k_proj = self.v_proj = nn.Identity()
        self.attend = attend

    def forward(self, q, k, v):
        return self.attend(q, k, v)


class Stack(nn.Module):
    """Two attentions, each the last op of a checkpointed segment, so that its recompute ends before PV."""

    def __init__(self, attend) -> None:
        super().__init__()
        self.first = Attention(attend)
        self.second = Attention(attend)

    def forward(self, q, k, v):
        x = checkpoint(self.first, q, k, v, use_reentrant=False)
        return checkpoint(self.second, x, k, v, use_reentrant=False)


@pytest.mark.parametrize("attend", [by_hand, math_path])
@pytest.mark.parametrize("named", [True, False])
def test_recompute_that_ends_before_pv_is_told_with_what_ran(attend, named):
    model = Stack(attend)
    q, k, v = (torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))

    with AttentionProfiler(model if named else None, keep_calls=10) as prof:
        model(q, k, v).sum().backward()

    stats = prof.get_stats()
    layers = ["first", "second"] if named else ["attention[0]", "attention[1]"]
    assert [(call["layer"], call["direction"], call["flops"]) for call in stats.calls] == [
        (layers[0], "forward", 2 * PAIRS * 2 * D),
        (layers[1], "forward", 2 * PAIRS * 2 * D),
        (layers[1], "recompute", 2 * PAIRS * D),
        (layers[1], "backward", 2 * PAIRS * 4 * D),
        (layers[0], "recompute", 2 * PAIRS * D),
        (layers[0], "backward", 2 * PAIRS * 4 * D),
    ]
    first, second = (call["call_id"] for call in stats.calls[:2])
    assert [call["forward_call_id"] for call in stats.calls[2:]] == [second, second, first, first]
    assert stats.diagnostics["chains_unfinished"] == stats.diagnostics["calls_failed"] == 0


@pytest.mark.parametrize("attend", [by_hand, math_path])
def test_gradients_of_a_recompute_that_ends_early_are_the_same(attend):
    model = Stack(attend)
    q, k, v = (torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))
    plain = torch.autograd.grad(model(q, k, v).sum(), (q, k, v))

    with AttentionProfiler(model):
        watched = torch.autograd.grad(model(q, k, v).sum(), (q, k, v))

    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
