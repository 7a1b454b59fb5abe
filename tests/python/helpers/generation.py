"""A tiny decoder of transformers, and the name under which its forward takes a cache."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

#: By release of transformers.
CACHE = "cache" if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters else "past_key_values"

LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2, 4, 2, 8

#: Settings of the config of any decoder.
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": HEADS * HEAD_DIM,
    "intermediate_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 256,
}


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, pad_token_id=0)).eval()
