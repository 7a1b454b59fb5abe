"""Run with pytest: a test that fails when attention gets slower paths, more work or more memory than agreed."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, (4, 16)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2)


def test_attention_stays_fused_and_holds_no_score_matrix(attention_profiler):
    Attention()(torch.randn(2, 128, 64))

    # 2 sequences × 4 heads × (1 + 2 + … + 128) pairs, 2·(16 + 16) FLOPs a pair
    attention_profiler.assert_budget(
        forbid_variants=["sdpa_math", "eager"],
        max_total_flops=2 * 4 * (128 * 129 // 2) * 2 * (16 + 16),
        max_score_bytes=0,
    )


@pytest.mark.attention_budget(forbid_variants=["sdpa_math"], max_peak_bytes=4 << 20)
def test_budget_as_a_mark():
    Attention()(torch.randn(2, 128, 64))
