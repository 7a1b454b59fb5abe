"""Small programs with attention, fused and by hand, that return all that they compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """One fused attention and one by hand, with dropout, a mask and grouped queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)
        self.fused = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query = self.q(x).view(batch, length, 4, 8).transpose(1, 2)
        key = self.k(x).view(batch, length, 2, 8).transpose(1, 2)
        value = self.v(x).view(batch, length, 2, 8).transpose(1, 2)
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        else:
            key, value = (tensor.repeat_interleave(2, 1) for tensor in (key, value))
            hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = (query @ key.transpose(-2, -1) * 8**-0.5).masked_fill(hidden, float("-inf"))
            mixed = scores.softmax(-1) @ value
        return x + mixed.transpose(1, 2).reshape(batch, length, 32)


class EagerBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.fused = False


Outcome = list[torch.Tensor]


def trained(model: Callable[[torch.Tensor], torch.Tensor], parameters: list[nn.Parameter], x: torch.Tensor) -> Outcome:
    """Output, loss and every gradient."""
    x = x.clone().requires_grad_()
    output = model(x)
    loss = output.float().square().mean()
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]
    for parameter in parameters:
        parameter.grad = None
    assert x.grad is not None
    assert len(gradients) == len(parameters)
    return [output.detach(), loss.detach(), x.grad, *gradients]


def checkpointed(model: nn.Module, *, reentrant: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: checkpoint(model, x, use_reentrant=reentrant)


def autocast(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    return run
