"""What attention costs in a training step: time, FLOPs, bytes and peak memory of each layer, forward and backward."""

import torch
from torch import nn

from headscope import AttentionProfiler


def main() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model=128, nhead=8, dim_feedforward=256, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=3)
    optimizer = torch.optim.AdamW(model.parameters())

    with AttentionProfiler(model) as prof:
        for _ in range(4):
            batch = torch.randn(8, 96, 128)
            loss = model(batch).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()

    stats = prof.get_stats()
    print(stats.table(heads_of="layers.1.*"))
    print(f"attention is {100 * stats.time['attention_share']:.0f} % of the step")
    for row in stats.rows(direction="backward"):
        print(f"{row['layer']}: {row['flops']:,} FLOPs and {row['bytes']:,} compulsory bytes in backward")


if __name__ == "__main__":
    main()
