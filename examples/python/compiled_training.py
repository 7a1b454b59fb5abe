"""A torch.compile'd training step: the profiler sees the attention that compiled code runs, forward and backward.

Module hooks do not run in compiled code, so layers take the names of the model's attention modules by the order of
the calls, which is an estimate.
"""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from headscope import AttentionProfiler


class Attention(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), Attention())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile
    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        return model(batch).pow(2).mean()

    def step() -> None:
        loss_of(torch.randn(4, 64, 64)).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()  # compiles, outside the profile
    with AttentionProfiler(model) as prof:
        for _ in range(5):
            step()
            prof.step()

    stats = prof.get_stats()
    print(stats)
    for direction in ("forward", "backward"):
        calls = sum(row["calls"] for row in stats.rows(direction=direction))
        print(f"{direction}: {calls} calls in {stats.time['steps']} steps")


if __name__ == "__main__":
    main()
