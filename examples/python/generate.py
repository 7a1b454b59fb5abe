"""Prefill against decode: a small decoder with a KV cache, hand-written, so that nothing but torch is needed."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from headscope import AttentionProfiler


class CachedAttention(nn.Module):
    """Grouped-query attention that appends to a cache of keys and values."""

    def __init__(self, width: int = 128, num_heads: int = 8, num_kv_heads: int = 2) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = width // num_heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, num_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(width, num_kv_heads * self.head_dim)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = (
            projection(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if cache:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        cache[:] = [key, value]
        mixed = scaled_dot_product_attention(query, key, value, is_causal=length > 1, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CachedAttention() for _ in range(layers))

    def forward(self, x: torch.Tensor, caches: list[list[torch.Tensor]]) -> torch.Tensor:
        for layer, cache in zip(self.layers, caches, strict=True):
            x = x + layer(x, cache)
        return x


def main() -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    caches: list[list[torch.Tensor]] = [[] for _ in model.layers]

    with torch.inference_mode(), AttentionProfiler(model) as prof:
        token = model(torch.randn(1, 256, 128), caches)[:, -1:]
        for _ in range(32):
            token = model(token, caches)

    stats = prof.get_stats()
    print(stats)
    for phase in ("prefill", "decode"):
        for row in stats.rows(phase=phase):
            print(f"{row['layer']} {phase}: {row['flops_per_byte']:.2f} FLOPs a byte, {row['calls']} calls")


if __name__ == "__main__":
    main()
