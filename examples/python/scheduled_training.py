"""Profiles 2 of every 10 training steps: in between the hooks are idle, so that it may stay in a long run."""

import torch
from torch import nn

from headscope import AttentionProfiler


def report(prof: AttentionProfiler) -> None:
    """Called after each window, with the figures of that window alone."""
    stats = prof.get_stats()
    time, steps = stats.time, [point["first_step"] for point in stats["steps"]]
    print(
        f"steps {steps}: attention is {100 * time['attention_share']:.0f} % of {time['wall_ns'] / 1e6:.1f} ms; "
        f"a call needs up to {stats.total['peak_bytes']:,} bytes"
    )


def main() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model=128, nhead=8, dim_feedforward=256, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=3)
    optimizer = torch.optim.AdamW(model.parameters())
    # The same schedule that torch.profiler takes: 7 steps idle, 1 to warm up, 2 collected.
    schedule = torch.profiler.schedule(wait=7, warmup=1, active=2)

    with AttentionProfiler(model, schedule=schedule, on_ready=report) as prof:
        for _ in range(30):
            loss = model(torch.randn(8, 96, 128)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()

    print(prof.get_stats())


if __name__ == "__main__":
    main()
