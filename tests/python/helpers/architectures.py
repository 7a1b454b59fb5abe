"""Transformers architectures with tiny random weights, and what their attention is by their configuration.

Lengths, head dims and counts of heads differ from each other, so that no count is right by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from helpers.work import count_pairs, forward_flops, sliding, upper_left

BATCH, LENGTH, OTHER_LENGTH = 2, 12, 7
WINDOW = 5


def everything(i: int, j: int) -> bool:
    return True


@dataclass(frozen=True)
class Attention:
    """One attention module."""

    layer: str
    q_len: int = LENGTH
    kv_len: int = LENGTH
    admits: Callable[[int, int], bool] = everything
    heads: int = 4
    model_kv_heads: int | None = 4
    head_dim: int = 8
    head_dim_v: int = 8
    cross: bool = False
    #: FLOPs of products besides QKᵀ and PV.
    extra_flops: int = 0

    @property
    def pairs(self) -> int:
        return BATCH * self.heads * count_pairs(self.q_len, self.kv_len, self.admits)

    @property
    def flops(self) -> int:
        return forward_flops(self.pairs, self.head_dim, self.head_dim_v) + self.extra_flops

    @property
    def flops_dense(self) -> int:
        pairs = BATCH * self.heads * self.q_len * self.kv_len
        return forward_flops(pairs, self.head_dim, self.head_dim_v) + self.extra_flops

    @property
    def phase(self) -> str:
        if self.cross:
            return "cross"
        return "encode" if self.admits is everything else "prefill"


@dataclass(frozen=True)
class Architecture:
    model: str
    config: str
    settings: dict[str, Any]
    attention: list[Attention]
    inputs: Callable[[], dict[str, Any]]
    #: The variant with attn_implementation="sdpa"; None where transformers has no such path for it.
    sdpa: str | None = "sdpa_flash"

    def build(self, implementation: str) -> nn.Module:
        transformers = __import__("transformers")
        config = getattr(transformers, self.config)(**self.settings, attn_implementation=implementation)
        torch.manual_seed(0)
        return getattr(transformers, self.model)(config).eval()


def tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.arange(3, 3 + BATCH * length).view(BATCH, length)


def text() -> dict[str, Any]:
    return {"input_ids": tokens()}


def two_texts() -> dict[str, Any]:
    return {"input_ids": tokens(), "decoder_input_ids": tokens(OTHER_LENGTH)}


def pixels() -> torch.Tensor:
    return torch.randn(BATCH, 3, 32, 32)


def layers(path: str, count: int = 2, **what: Any) -> list[Attention]:
    return [Attention(path.format(i), **what) for i in range(count)]


def alternating(path: str, **what: Any) -> list[Attention]:
    """Even layers have a sliding window, odd ones none."""
    window = sliding(LENGTH, LENGTH, WINDOW)
    return [Attention(path.format(i), admits=window if i % 2 == 0 else upper_left, **what) for i in range(2)]


SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
IMAGE = {"image_size": 32, "patch_size": 16}
#: 2·2 patches and the class token.
PATCHES = 5
POSITIONS = 9

CAUSAL_GROUPED: dict[str, Any] = {"admits": upper_left, "model_kv_heads": 2}
CAUSAL: dict[str, Any] = {"admits": upper_left}

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(
        "LlamaForCausalLM", "LlamaConfig", GROUPED, layers("model.layers.{}.self_attn", **CAUSAL_GROUPED), text
    ),
    "mistral": Architecture(
        "MistralModel",
        "MistralConfig",
        {**GROUPED, "sliding_window": WINDOW},
        layers("layers.{}.self_attn", admits=sliding(LENGTH, LENGTH, WINDOW), model_kv_heads=2),
        text,
    ),
    "gemma2": Architecture(
        "Gemma2Model",
        "Gemma2Config",
        {**GROUPED, "head_dim": 6, "sliding_window": WINDOW},
        alternating("layers.{}.self_attn", model_kv_heads=2, head_dim=6, head_dim_v=6),
        text,
        sdpa=None,
    ),
    "mixtral": Architecture(
        "MixtralModel",
        "MixtralConfig",
        {**GROUPED, "num_local_experts": 3, "num_experts_per_tok": 2},
        layers("layers.{}.self_attn", **CAUSAL_GROUPED),
        text,
    ),
    "qwen3": Architecture(
        "Qwen3Model",
        "Qwen3Config",
        {**GROUPED, "head_dim": 6},
        layers("layers.{}.self_attn", **CAUSAL_GROUPED, head_dim=6, head_dim_v=6),
        text,
    ),
    "phi3": Architecture("Phi3Model", "Phi3Config", GROUPED, layers("layers.{}.self_attn", **CAUSAL_GROUPED), text),
    "gpt_oss": Architecture(
        "GptOssModel",
        "GptOssConfig",
        {**GROUPED, "head_dim": 6, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": WINDOW},
        alternating("layers.{}.self_attn", model_kv_heads=2, head_dim=6, head_dim_v=6),
        text,
        sdpa=None,
    ),
    "deepseek_v3": Architecture(
        "DeepseekV3Model",
        "DeepseekV3Config",
        {
            **SMALL,
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 12,
            "n_routed_experts": 4,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "num_experts_per_tok": 2,
        },
        layers("layers.{}.self_attn", **CAUSAL, head_dim=24, head_dim_v=12),
        text,
        sdpa="sdpa_math",
    ),
    "gpt2": Architecture(
        "GPT2Model",
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2},
        layers("h.{}.attn", **CAUSAL, model_kv_heads=None),
        text,
    ),
    "bloom": Architecture(
        "BloomModel",
        "BloomConfig",
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
        layers("h.{}.self_attention", **CAUSAL, model_kv_heads=None),
        text,
        sdpa=None,
    ),
    "bert": Architecture("BertModel", "BertConfig", SMALL, layers("encoder.layer.{}.attention.self"), text),
    "deberta_v2": Architecture(
        "DebertaV2Model",
        "DebertaV2Config",
        {
            **SMALL,
            "num_hidden_layers": 1,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "max_relative_positions": POSITIONS,
        },
        # Content to position and position to content: a product with each of the 2·POSITIONS distances.
        layers(
            "encoder.layer.{}.attention.self",
            1,
            extra_flops=2 * (2 * BATCH * 4 * LENGTH * (2 * POSITIONS) * 8),
        ),
        text,
        sdpa=None,
    ),
    "vit": Architecture(
        "ViTModel",
        "ViTConfig",
        {**SMALL, **IMAGE},
        layers("layers.{}.attention", q_len=PATCHES, kv_len=PATCHES),
        lambda: {"pixel_values": pixels()},
    ),
    "clip": Architecture(
        "CLIPModel",
        "CLIPConfig",
        {"text_config": SMALL, "vision_config": {**SMALL, **IMAGE}},
        layers("text_model.encoder.layers.{}.self_attn", **CAUSAL)
        + layers("vision_model.encoder.layers.{}.self_attn", q_len=PATCHES, kv_len=PATCHES),
        lambda: {"input_ids": tokens(), "pixel_values": pixels()},
    ),
    "t5": Architecture(
        "T5Model",
        "T5Config",
        {
            "d_model": 32,
            "d_kv": 6,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 99,
            "decoder_start_token_id": 0,
        },
        layers("encoder.block.{}.layer.0.SelfAttention", head_dim=6, head_dim_v=6)
        + layers(
            "decoder.block.{}.layer.0.SelfAttention",
            q_len=OTHER_LENGTH,
            kv_len=OTHER_LENGTH,
            head_dim=6,
            head_dim_v=6,
            **CAUSAL,
        )
        + layers("decoder.block.{}.layer.1.EncDecAttention", q_len=OTHER_LENGTH, head_dim=6, head_dim_v=6, cross=True),
        two_texts,
        sdpa=None,
    ),
    "whisper": Architecture(
        "WhisperModel",
        "WhisperConfig",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "vocab_size": 99,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "max_source_positions": 20,
            "num_mel_bins": 9,
        },
        layers("encoder.layers.{}.self_attn", q_len=20, kv_len=20)
        + layers("decoder.layers.{}.self_attn", q_len=OTHER_LENGTH, kv_len=OTHER_LENGTH, **CAUSAL)
        + layers("decoder.layers.{}.encoder_attn", q_len=OTHER_LENGTH, kv_len=20, cross=True),
        lambda: {"input_features": torch.randn(BATCH, 9, 40), "decoder_input_ids": tokens(OTHER_LENGTH)},
    ),
}
