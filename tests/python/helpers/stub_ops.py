"""Attention ops of other libraries, and torch's that have no CPU kernel: same schema, a plain kernel.

The kernels multiply and sum, so that no other op that is known runs inside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.attention.varlen  # defines torch_attn::_varlen_attn


def output_of(query: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Zeros of the shape that attention would give: these tests read counts, not results."""
    return query.new_zeros(*query.shape[:-1], value.shape[-1])


@contextmanager
def flash_attn() -> Iterator[None]:
    """flash_attn::_flash_attn_forward and its kin, as flash-attn 2 defines them; [B,S,H,D] or packed [T,H,D]."""
    with torch.library._scoped_library("flash_attn", "FRAGMENT") as library:
        library.define(
            "_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, "
            "int window_size_left, int window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax) "
            "-> (Tensor, Tensor, Tensor, Tensor)"
        )
        library.define(
            "_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
            "SymInt max_seqlen_q, SymInt max_seqlen_k, float dropout_p, float softmax_scale, bool causal, "
            "int window_size_left=-1, int window_size_right=-1, float softcap=0.0, Tensor? alibi_slopes=None, "
            "bool return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None, "
            "bool zero_tensors=False, int num_splits=0) -> (Tensor, Tensor, Tensor, Tensor)"
        )
        library.define(
            "_flash_attn_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
            "Tensor(a!)? dq, Tensor(b!)? dk, Tensor(c!)? dv, float dropout_p, float softmax_scale, bool causal, "
            "int window_size_left, int window_size_right, float softcap, Tensor? alibi_slopes, bool deterministic, "
            "Tensor? rng_state=None) -> Tensor"
        )

        def forward(q, k, v, *rest, **more):
            return output_of(q, v), q.new_zeros(q.shape[:-1]), q.new_zeros(0), q.new_zeros(0)

        def backward(dout, q, k, v, out, lse, dq, dk, dv, *rest, **more):
            return q.new_zeros(q.shape[:-1])

        library.impl("_flash_attn_forward", forward, "CPU")
        library.impl("_flash_attn_varlen_forward", forward, "CPU")
        library.impl("_flash_attn_backward", backward, "CPU")
        yield


@contextmanager
def varlen() -> Iterator[None]:
    """torch.nn.attention.varlen.varlen_attn on the CPU."""

    def forward(query, key, value, *rest, **more):
        return output_of(query, value), query.new_zeros(query.shape[:-1]).float(), query.new_zeros(2).long()

    def backward(grad_out, query, key, value, *rest, **more):
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)

    with torch.library._scoped_library("torch_attn", "IMPL") as library:
        library.impl("_varlen_attn", forward, "CPU")
        library.impl("_varlen_attn_backward", backward, "CPU")
        yield
