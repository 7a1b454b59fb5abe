"""Independent counts of the work of attention: pairs by brute force over the mask, then 2·P·(D+Dv)."""

from __future__ import annotations

from collections.abc import Callable

import torch


def count_pairs(q_len: int, kv_len: int, admits: Callable[[int, int], bool]) -> int:
    """(query, key) pairs of one head and sequence that `admits`."""
    return sum(admits(i, j) for i in range(q_len) for j in range(kv_len))


def upper_left(i: int, j: int) -> bool:
    """The first query sees the first key."""
    return j <= i


def lower_right(q_len: int, kv_len: int) -> Callable[[int, int], bool]:
    """The last query sees the last key."""
    return lambda i, j: j <= i + kv_len - q_len


def sliding(q_len: int, kv_len: int, window: int) -> Callable[[int, int], bool]:
    """Causal from the lower right, and no further back than `window` keys, the query's own included."""
    return lambda i, j: 0 <= i + kv_len - q_len - j < window


def admitted(mask: torch.Tensor) -> int:
    """Pairs that a mask of any shape admits, element by element."""
    if mask.dtype == torch.bool:
        return sum(mask.flatten().tolist())
    lowest = torch.finfo(mask.dtype).min / 2
    return sum(value > lowest for value in mask.flatten().tolist())


def forward_flops(pairs: int, head_dim: int, head_dim_v: int | None = None) -> int:
    return 2 * pairs * (head_dim + (head_dim if head_dim_v is None else head_dim_v))


def fused_backward_flops(pairs: int, head_dim: int, head_dim_v: int | None = None) -> int:
    return 2 * pairs * (3 * head_dim + 2 * (head_dim if head_dim_v is None else head_dim_v))


def eager_backward_flops(pairs: int, head_dim: int, head_dim_v: int | None = None) -> int:
    return 2 * pairs * (2 * head_dim + 2 * (head_dim if head_dim_v is None else head_dim_v))
