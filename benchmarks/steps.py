"""The two steps whose share is asked for: a training step and a decode of a small model."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: Ops with a hook, under the names that torch.profiler shows.
_FORWARD = "aten::scaled_dot_product_attention"
_BACKWARD = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
_EAGER = ("aten::bmm", "aten::baddbmm", "aten::_softmax", "aten::_safe_softmax", "aten::_softmax_backward_data")


def training_step() -> tuple[nn.Module, Callable[[], Any]]:
    """4 layers, 256 wide, 2 × 64 tokens; forward, backward and optimiser."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(2, 64, 256)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return model, step


def decode() -> tuple[nn.Module, Callable[[], Any]] | None:
    """A Llama of 4 layers, 256 wide, generates 20 tokens. None without transformers."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return None
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    prompt = torch.arange(1, 17)[None]
    mask = torch.ones_like(prompt)

    def step() -> None:
        with torch.no_grad():
            model.generate(prompt, attention_mask=mask, max_new_tokens=20, min_new_tokens=20, do_sample=False)

    return model, step


def hooked_calls(step: Callable[[], Any]) -> tuple[int, int, int]:
    """How many forwards, backwards and hooked ops beside them the step runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
    counts = collections.Counter({event.key: event.count for event in profile.key_averages()})
    return counts[_FORWARD], counts[_BACKWARD], sum(counts[name] for name in _EAGER)
