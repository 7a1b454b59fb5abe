"""Attention modules of every variant that torch trains on the CPU, stacked into a model to train in several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from headscope import register_attention_op

B, H, KV_HEADS, S, D = 2, 4, 2, 8, 16
HIDDEN = H * D
FULL = B * H * S * S
TRIANGLE = B * H * S * (S + 1) // 2

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def by_hand(q, k, v):
    return (q @ k.transpose(-1, -2) * D**-0.5).softmax(-1) @ v


def by_bmm(q, k, v):
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    scores = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=D**-0.5)
    return torch.bmm(scores.softmax(-1), v).unflatten(0, (B, H))


def math_path(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, enable_gqa=q.size(1) != k.size(1))


def flash(q, k, v):
    return scaled_dot_product_attention(q, k, v, enable_gqa=q.size(1) != k.size(1))


def causal_flash(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_math(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, is_causal=True)


@torch.library.custom_op("headscope_tests::trained_attention", mutates_args=())
def own_op(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return by_hand(query, key, value)


@own_op.register_fake
def _(query, key, value):
    return query.new_empty(query.shape)


@torch.library.custom_op("headscope_tests::trained_attention_backward", mutates_args=())
def own_backward(
    grad_out: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = query @ key.mT * D**-0.5
    probabilities = scores.softmax(-1)
    grad_scores = torch._softmax_backward_data(grad_out @ value.mT, probabilities, -1, scores.dtype) * D**-0.5
    return grad_scores @ key, grad_scores.mT @ query, probabilities.mT @ grad_out


@own_backward.register_fake
def _(grad_out, query, key, value, out):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


own_op.register_autograd(
    lambda ctx, grad: own_backward(grad, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output),
)
register_attention_op(own_op, variant="mine")
register_attention_op(own_backward, variant="mine", backward=True)


class Attention(nn.Module):
    """Projections around `attend`."""

    def __init__(self, attend: Attend, kv_heads: int = H) -> None:
        super().__init__()
        self.num_heads = H
        self.kv_heads = kv_heads
        self.attend = attend
        self.q_proj = nn.Linear(HIDDEN, HIDDEN)
        self.k_proj = nn.Linear(HIDDEN, kv_heads * D)
        self.v_proj = nn.Linear(HIDDEN, kv_heads * D)
        self.out_proj = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.q_proj(x).view(B, S, H, D).transpose(1, 2)
        k = self.k_proj(x).view(B, S, self.kv_heads, D).transpose(1, 2)
        v = self.v_proj(x).view(B, S, self.kv_heads, D).transpose(1, 2)
        return self.out_proj(self.attend(q, k, v).transpose(1, 2).flatten(2))


class MultiHead(nn.Module):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.need_weights = need_weights
        self.inner = nn.MultiheadAttention(HIDDEN, H, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=self.need_weights)[0]


class Stack(nn.Module):
    """Two layers; `reentrant` says how each is checkpointed, None: not at all."""

    def __init__(self, layer: Callable[[], nn.Module], reentrant: bool | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer(), layer()])
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + (layer(x) if self.reentrant is None else checkpoint(layer, x, use_reentrant=self.reentrant))
        return x


@dataclass(frozen=True)
class Variant:
    """How a layer attends, and what headscope must say of it."""

    layer: Callable[[], nn.Module]
    name: str
    pairs: int
    #: FLOPs of the backward, in units of pairs · D.
    backward: int
    layers: tuple[str, str] = ("layers.0", "layers.1")

    @property
    def forward_flops(self) -> int:
        return 4 * self.pairs * D

    @property
    def backward_flops(self) -> int:
        return self.backward * self.pairs * D


#: 2·(3D+2D) with the scores computed again in a fused kernel, 2·(2D+2D) where they were kept.
FUSED, KEPT = 10, 8

IN_MULTI_HEAD = ("layers.0.inner", "layers.1.inner")

VARIANTS = {
    "eager": Variant(lambda: Attention(by_hand), "eager", FULL, KEPT),
    "eager bmm": Variant(lambda: Attention(by_bmm), "eager", FULL, KEPT),
    "sdpa math": Variant(lambda: Attention(math_path), "sdpa_math", FULL, KEPT),
    "sdpa math gqa": Variant(lambda: Attention(math_path, KV_HEADS), "sdpa_math", FULL, KEPT),
    "sdpa math causal": Variant(lambda: Attention(causal_math), "sdpa_math", TRIANGLE, KEPT),
    "sdpa flash": Variant(lambda: Attention(flash), "sdpa_flash", FULL, FUSED),
    "sdpa flash gqa": Variant(lambda: Attention(flash, KV_HEADS), "sdpa_flash", FULL, FUSED),
    "sdpa flash causal": Variant(lambda: Attention(causal_flash), "sdpa_flash", TRIANGLE, FUSED),
    "multi-head with weights": Variant(lambda: MultiHead(True), "eager", FULL, KEPT, IN_MULTI_HEAD),
    "multi-head": Variant(lambda: MultiHead(False), "sdpa_flash", FULL, FUSED, IN_MULTI_HEAD),
    "registered op": Variant(lambda: Attention(own_op), "mine", FULL, FUSED),
}


def stack(name: str, reentrant: bool | None = None) -> Stack:
    torch.manual_seed(0)
    return Stack(VARIANTS[name].layer, reentrant)


def batch() -> torch.Tensor:
    """Asks for gradients, without which a reentrant checkpoint of the first layer would have none."""
    return torch.randn(B, S, HIDDEN, requires_grad=True)
