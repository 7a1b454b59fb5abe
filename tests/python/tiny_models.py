"""Architectures of transformers with tiny random weights, and torch's own; each with an input to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Any]]
    #: name → (heads, kv heads, cross) of its attention modules.
    layers: dict[str, tuple[int | None, int | None, bool]]


SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def of_transformers(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        transformers = __import__("transformers")
        return getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()

    return build


def tokens(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"input_ids": torch.arange(3, 13)[None], **more}


def both_sides() -> dict[str, Any]:
    return {"input_ids": torch.arange(3, 13)[None], "decoder_input_ids": torch.arange(3, 8)[None]}


def layers(pattern: str, count: int, heads: int = 4, kv_heads: int | None = 4, cross: bool = False):
    return {pattern.format(i): (heads, kv_heads, cross) for i in range(count)}


ENC_DEC = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
IMAGE = {"image_size": 32, "patch_size": 16}

CASES: dict[str, Case] = {
    "llama": Case(
        of_transformers("LlamaForCausalLM", "LlamaConfig", **SMALL, num_key_value_heads=2),
        tokens(),
        layers("model.layers.{}.self_attn", 2, kv_heads=2),
    ),
    "mistral": Case(
        of_transformers("MistralModel", "MistralConfig", **SMALL, num_key_value_heads=2),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "gemma2": Case(
        of_transformers("Gemma2Model", "Gemma2Config", **SMALL, num_key_value_heads=2, head_dim=8),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "mixtral": Case(
        of_transformers("MixtralModel", "MixtralConfig", **SMALL, num_key_value_heads=2, num_local_experts=2),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "qwen3": Case(
        of_transformers("Qwen3Model", "Qwen3Config", **SMALL, num_key_value_heads=2, head_dim=8),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "phi3": Case(
        of_transformers("Phi3Model", "Phi3Config", **SMALL, num_key_value_heads=2),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "gpt_oss": Case(
        of_transformers(
            "GptOssModel",
            "GptOssConfig",
            **SMALL,
            num_key_value_heads=2,
            head_dim=8,
            num_local_experts=2,
            num_experts_per_tok=1,
        ),
        tokens(),
        layers("layers.{}.self_attn", 2, kv_heads=2),
    ),
    "deepseek_v3": Case(
        of_transformers(
            "DeepseekV3Model",
            "DeepseekV3Config",
            **SMALL,
            num_key_value_heads=4,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=16,
            v_head_dim=12,
            n_routed_experts=4,
            n_group=1,
            topk_group=1,
            moe_intermediate_size=32,
            first_k_dense_replace=2,
            num_experts_per_tok=2,
        ),
        tokens(),
        layers("layers.{}.self_attn", 2),
    ),
    "gpt2": Case(
        of_transformers(
            "GPT2Model", "GPT2Config", n_embd=32, n_layer=2, n_head=4, vocab_size=99, bos_token_id=1, eos_token_id=2
        ),
        tokens(),
        layers("h.{}.attn", 2, kv_heads=None),
    ),
    "bloom": Case(
        of_transformers("BloomModel", "BloomConfig", hidden_size=32, n_layer=2, n_head=4, vocab_size=99),
        tokens(),
        layers("h.{}.self_attention", 2, kv_heads=None),
    ),
    "bert": Case(
        of_transformers("BertModel", "BertConfig", **SMALL), tokens(), layers("encoder.layer.{}.attention.self", 2)
    ),
    "deberta_v2": Case(
        of_transformers("DebertaV2Model", "DebertaV2Config", **SMALL),
        tokens(),
        layers("encoder.layer.{}.attention.self", 2),
    ),
    "vit": Case(
        of_transformers("ViTModel", "ViTConfig", **{**SMALL, **IMAGE}),
        lambda: {"pixel_values": torch.randn(1, 3, 32, 32)},
        layers("layers.{}.attention", 2),
    ),
    "clip": Case(
        of_transformers("CLIPModel", "CLIPConfig", text_config=SMALL, vision_config={**SMALL, **IMAGE}),
        tokens(pixel_values=torch.zeros(1, 3, 32, 32)),
        layers("text_model.encoder.layers.{}.self_attn", 2) | layers("vision_model.encoder.layers.{}.self_attn", 2),
    ),
    "t5": Case(
        of_transformers(
            "T5Model",
            "T5Config",
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=1,
            num_heads=4,
            vocab_size=99,
            decoder_start_token_id=0,
        ),
        both_sides,
        layers("encoder.block.{}.layer.0.SelfAttention", 1)
        | layers("decoder.block.{}.layer.0.SelfAttention", 1)
        | layers("decoder.block.{}.layer.1.EncDecAttention", 1, cross=True),
    ),
    "whisper": Case(
        of_transformers("WhisperModel", "WhisperConfig", **ENC_DEC, max_source_positions=20, num_mel_bins=8),
        lambda: {"input_features": torch.randn(1, 8, 40), "decoder_input_ids": torch.arange(3, 8)[None]},
        layers("encoder.layers.{}.self_attn", 1)
        | layers("decoder.layers.{}.self_attn", 1)
        | layers("decoder.layers.{}.encoder_attn", 1, cross=True),
    ),
    "torch_transformer": Case(
        lambda: nn.Transformer(32, 4, 2, 2, 64, batch_first=True).train(),
        lambda: {"src": torch.randn(1, 10, 32), "tgt": torch.randn(1, 5, 32)},
        layers("encoder.layers.{}.self_attn", 2)
        | layers("decoder.layers.{}.self_attn", 2)
        | layers("decoder.layers.{}.multihead_attn", 2, cross=True),
    ),
}


class FusedAttention(nn.Module):
    """As in vision libraries: one projection for all three."""

    def __init__(self, width: int = 32, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class PlainBlock(nn.Module):
    """Hand-written, with three short names and an optional other sequence."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        source = x if context is None else context
        scores = self.q(x) @ self.k(source).transpose(-1, -2)
        return scores.softmax(-1) @ self.v(source)


class Tower(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x
