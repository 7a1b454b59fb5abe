"""Finds the attention modules of a model by what they hold, not by the classes of one library."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

#: Names of the children that project to query, key and value.
_PROJECTIONS = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q", "k", "v"),
    ("to_q", "to_k", "to_v"),
    ("wq", "wk", "wv"),
    ("Wq", "Wk", "Wv"),
    ("W_q", "W_k", "W_v"),
    ("w_q", "w_k", "w_v"),
    ("q_lin", "k_lin", "v_lin"),
    ("query_proj", "key_proj", "value_proj"),
    ("linear_q", "linear_k", "linear_v"),
    ("q_linear", "k_linear", "v_linear"),
    ("fc_q", "fc_k", "fc_v"),
    ("queries", "keys", "values"),
)
#: Names of a child that projects to all three, or to the latent keys and values of MLA.
_FUSED = frozenset(
    (
        *("qkv", "qkv_proj", "to_qkv", "linear_qkv", "qkv_linear", "in_proj_qkv", "Wqkv", "wqkv", "W_pack"),
        *("query_key_value", "c_attn", "att_proj", "attn_proj", "in_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    )
)
#: Children of this name are found in modules that are no attention (state-space mixers).
_AMBIGUOUS = frozenset({"in_proj"})

_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "nheads", "num_head", "heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head", "kv_heads", "num_query_groups")

_ATTENTION_NAME = re.compile(r"attention|attn", re.IGNORECASE)
_CROSS_NAME = re.compile(r"cross|xattn|encoder_attn|enc_attn|encoder_attention|encdec|multihead_attn", re.IGNORECASE)

#: Parameters of forward() that bring another sequence.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "context", "memory")

#: Modules that only stand before another one: child that carries the name on.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


@dataclass(frozen=True)
class OtherSequence:
    """The argument of forward() that makes a call cross-attention when it is another object than the query."""

    name: str
    position: int
    query: str


@dataclass(frozen=True)
class AttentionModule:
    """An attention module and what is known of it before it runs."""

    module: nn.Module
    #: Module path, without wrappers.
    name: str
    heads: int | None = None
    kv_heads: int | None = None
    #: Always reads keys and values of another sequence.
    cross: bool = False
    #: Reads them when this argument says so.
    other_sequence: OtherSequence | None = None
    #: An nn.TransformerEncoderLayer that may run as one op, past its self_attn.
    encoder_layer: bool = False


def find_attention(model: nn.Module) -> list[AttentionModule]:
    """The attention modules of `model` in module order. A module that stands in two places has its first path."""
    places = list(_walk(model, "", set()))
    inside = _encoder_layer_parts(places)
    projecting = [(path, module) for path, module in places if _projects(module)]
    projecting_ids = {id(module) for _, module in projecting}
    named = [(path, module) for path, module in places if _is_named_attention(module)]
    found: list[AttentionModule] = []
    for path, module in places:
        if isinstance(module, nn.TransformerEncoderLayer) and id(module.self_attn) in inside:
            heads = _count(module.self_attn, ("num_heads",))
            found.append(AttentionModule(module, _join(path, "self_attn"), heads, heads, encoder_layer=True))
        elif id(module) in inside:
            continue
        elif id(module) in projecting_ids or (
            _is_named_attention(module) and _innermost(path, projecting, named) and not _under(path, projecting)
        ):
            found.append(_described(path, module))
    return found


def _walk(module: nn.Module, path: str, seen: set[int]) -> Iterator[tuple[str, nn.Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    wrapped = _WRAPPERS.get(type(module).__name__)
    if wrapped is not None and isinstance(inner := module._modules.get(wrapped), nn.Module):
        yield from _walk(inner, path, seen)
        return
    yield path, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(child, _join(path, name), seen)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _encoder_layer_parts(places: list[tuple[str, nn.Module]]) -> set[int]:
    """Attention modules that their nn.TransformerEncoderLayer stands for. One with a forward of its own may do
    anything, so there the attention module is hooked."""
    return {
        id(module.self_attn)
        for _, module in places
        if isinstance(module, nn.TransformerEncoderLayer)
        and type(module).forward is nn.TransformerEncoderLayer.forward
        and type(module.self_attn) is nn.MultiheadAttention
    }


def _projects(module: nn.Module) -> bool:
    """Whether attention shows in the module's own children."""
    if isinstance(module, nn.MultiheadAttention):
        return True
    children = module._modules.keys()
    if any(children >= set(names) for names in _PROJECTIONS):
        return True
    fused = children & _FUSED
    if not fused:
        return False
    is_named = _ATTENTION_NAME.search(type(module).__name__) is not None
    return is_named or (bool(fused - _AMBIGUOUS) and _heads(module) is not None)


def _is_named_attention(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__


def _innermost(path: str, projecting: list[tuple[str, nn.Module]], named: list[tuple[str, nn.Module]]) -> bool:
    prefix = f"{path}." if path else ""
    return not any(other != path and other.startswith(prefix) for other, _ in (*projecting, *named))


def _under(path: str, projecting: list[tuple[str, nn.Module]]) -> bool:
    return any(path != other and path.startswith(f"{other}." if other else "") for other, _ in projecting)


def _described(path: str, module: nn.Module) -> AttentionModule:
    cross = _is_cross(path, module)
    heads = _heads(module)
    return AttentionModule(
        module,
        path or type(module).__name__,
        heads,
        _kv_heads(module, heads),
        cross,
        None if cross else _other_sequence(module),
    )


def _heads(module: nn.Module) -> int | None:
    return _count(module, _HEADS) or _count(getattr(module, "config", None), _HEADS)


def _kv_heads(module: nn.Module, heads: int | None) -> int | None:
    if isinstance(module, nn.MultiheadAttention):
        return heads
    return (
        _count(module, _KV_HEADS)
        or _count(getattr(module, "config", None), _KV_HEADS)
        or (heads if _has_equal_projections(module) else None)
    )


def _has_equal_projections(module: nn.Module) -> bool:
    """Query and key projections of one width have as many heads."""
    for query, key, _ in _PROJECTIONS:
        widths = [getattr(module._modules.get(name), "out_features", None) for name in (query, key)]
        if isinstance(widths[0], int) and widths[0] == widths[1]:
            return True
    return False


def _count(holder: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _is_cross(path: str, module: nn.Module) -> bool:
    flag = getattr(module, "is_cross_attention", None)
    if isinstance(flag, bool):
        return flag
    # The module's own name and its parent's: `crossattention.self`.
    near = ".".join(path.split(".")[-2:])
    return _CROSS_NAME.search(near) is not None or "Cross" in type(module).__name__


def _other_sequence(module: nn.Module) -> OtherSequence | None:
    if isinstance(module, nn.MultiheadAttention):
        return OtherSequence("key", 1, "query")
    try:
        parameters = list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        return None
    for name in _OTHER_SEQUENCE:
        if name in parameters[1:]:
            return OtherSequence(name, parameters.index(name), parameters[0])
    return None
