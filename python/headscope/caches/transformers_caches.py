"""How full the cache objects of transformers are: one function a kind of cache, from the object to plain figures.

Reads attributes of both the 4.57 and the 5.x classes, and shapes of tensors; never a tensor's data on a device.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

Figures = dict[str, Any]


def is_cache(value: Any) -> bool:
    """Whether `value` is a cache object of transformers: contiguous, encoder–decoder or paged."""
    loaded = sys.modules.get("transformers.cache_utils")
    if loaded is not None and isinstance(value, loaded.Cache):
        return True
    return _is_paged(value)


def contiguous_caches(cache: Any) -> list[tuple[str, Any]]:
    """The caches with layers of their own that a cache object holds, each with what tells it apart."""
    inner = getattr(cache, "self_attention_cache", None)
    if inner is None:
        return [("", cache)]
    return [(".self", inner), (".cross", cache.cross_attention_cache)]


def read(cache: Any, lengths: dict[str, int] | None = None, padding: int | None = None) -> list[Figures]:
    """The cache as a whole, then its layers. Empty for a cache that holds nothing yet.

    lengths: of a paged cache, tokens of each request. padding: pad tokens in the batch.
    """
    if _is_paged(cache):
        return _read_paged(cache, lengths or {})
    layers = [_read_layer(layer) for layer in _layers(cache)]
    known = [(index, figures) for index, figures in enumerate(layers) if figures is not None]
    if not known:
        return []
    whole = _whole([figures for _, figures in known])
    if padding is not None:
        whole["padding_tokens"] = min(padding, whole["used_tokens"])
    whole["device_free_bytes"] = _free_bytes(_layers(cache)[known[0][0]])
    for index, figures in known:
        figures["layer"] = str(index)
    return [whole, *(figures for _, figures in known)]


def length(cache: Any) -> int | None:
    """Tokens that each sequence of the first layer has seen, from what lies on the host: a microsecond. None where
    figures cannot be advanced by it (paged and quantized caches)."""
    layers = getattr(cache, "layers", None)
    if not layers or hasattr(layers[0], "_quantized_keys"):
        return None
    layer = layers[0]
    if hasattr(layer, "cumulative_length") or hasattr(layer, "max_cache_len"):
        return _length(layer)
    keys = layer.keys
    return keys.shape[-2] if isinstance(keys, torch.Tensor) else None


def advanced(figures: list[Figures], tokens: int) -> list[Figures]:
    """Figures that were read earlier, after `tokens` more tokens of each sequence."""
    layers = []
    for layer in figures[1:]:
        used = layer["used_tokens"] + layer["sequences"] * tokens
        if layer["capacity_tokens"] is not None:
            used = min(used, layer["capacity_tokens"])
        layers.append({**layer, "used_tokens": used, "reserved_tokens": max(layer["reserved_tokens"], used)})
    whole = _whole(layers)
    del whole["layer"]
    whole.update({key: figures[0].get(key) for key in ("padding_tokens", "device_free_bytes")})
    return [whole, *layers]


def _layers(cache: Any) -> list[Any]:
    return list(getattr(cache, "layers", ()))


def _read_layer(layer: Any) -> Figures | None:
    """One layer; None where it holds nothing yet."""
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if not getattr(layer, "is_initialized", keys is not None) or not isinstance(keys, torch.Tensor):
        return None
    if hasattr(layer, "_quantized_keys"):
        return _read_quantized(layer, keys, values)
    if keys.dim() != 4 or not isinstance(values, torch.Tensor):
        return None
    batch, heads, slots = keys.shape[0], keys.shape[1], keys.shape[2]
    per_slot = heads * (keys.shape[3] * keys.element_size() + values.shape[3] * values.element_size())
    capacity: int | None = None
    used = slots
    kind = "dynamic"
    if hasattr(layer, "max_cache_len"):
        kind = "sliding" if getattr(layer, "is_sliding", False) else "static"
        capacity = int(layer.max_cache_len)
        used = min(_length(layer), slots)
    elif getattr(layer, "is_sliding", False):
        kind = "sliding"
        # The window counts the token that comes, which is not kept.
        capacity = max(int(layer.sliding_window) - 1, slots)
    return {
        "kind": kind,
        "sequences": batch,
        "capacity_tokens": None if capacity is None else batch * capacity,
        "reserved_tokens": batch * _allocated_slots(keys),
        "used_tokens": batch * used,
        "bytes_per_token": float(per_slot),
    }


def _allocated_slots(keys: torch.Tensor) -> int:
    """Slots a sequence in the memory that `keys` keeps alive, of which it may be a part."""
    per_slot = keys.shape[0] * keys.shape[1] * keys.shape[3] * keys.element_size()
    storage = keys.untyped_storage().nbytes()
    return max(keys.shape[2], storage // per_slot) if per_slot else keys.shape[2]


def _length(layer: Any) -> int:
    """Tokens that a static layer has seen. On a device the count is read only where a copy is kept on the host."""
    for name in ("cumulative_length_int", "cumulative_length"):
        count = getattr(layer, name, None)
        if isinstance(count, int):
            return count
        if isinstance(count, torch.Tensor) and count.device.type == "cpu":
            return int(count)
    keys = layer.keys
    if keys.device.type != "cpu":
        raise NotImplementedError("the number of used slots lies on the device")
    # transformers 4.57 counts the slots that are not all zero.
    return int(layer.get_seq_length())


def _read_quantized(layer: Any, keys: torch.Tensor, values: Any) -> Figures:
    length = int(layer.cumulative_length)
    parts = [getattr(layer, "_quantized_keys", None), getattr(layer, "_quantized_values", None), keys, values]
    held = sum(_bytes_of(part) for part in parts)
    batch = _batch_of(layer, keys)
    used = None if batch is None else batch * length
    return {
        "kind": "quantized",
        "sequences": batch,
        "reserved_tokens": used,
        "used_tokens": used,
        "bytes_per_token": held / used if used else None,
        "reserved_bytes": held,
        "used_bytes": held,
    }


def _batch_of(layer: Any, keys: torch.Tensor) -> int | None:
    if keys.dim() == 4 and keys.numel() > 0:
        return int(keys.shape[0])
    quantized = layer._quantized_keys
    # A quantizer that packs its tensor keeps the shape beside it.
    for part in quantized if isinstance(quantized, (list, tuple)) else [quantized]:
        shape = part.get("shape") if isinstance(part, dict) else getattr(part, "shape", None)
        if shape is not None and len(shape) == 4:
            return int(shape[0])
    return None


def _tensors_of(part: Any) -> list[torch.Tensor]:
    """The plain tensors inside what a quantizer returned: a tensor, a wrapper of tensors, a tuple or a dict."""
    if isinstance(part, torch.Tensor):
        names = getattr(part, "__tensor_flatten__", None)
        if names is None:
            return [part]
        return [tensor for name in names()[0] for tensor in _tensors_of(getattr(part, name))]
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, (list, tuple)):
        return [tensor for item in part for tensor in _tensors_of(item)]
    return []


def _bytes_of(part: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors_of(part))


def _whole(layers: list[Figures]) -> Figures:
    """Tokens of the layer that holds most; bytes of all layers."""
    longest = max(layers, key=lambda figures: figures["used_tokens"] or 0)
    kinds = {figures["kind"] for figures in layers}
    whole: Figures = {
        **longest,
        "kind": longest["kind"] if len(kinds) == 1 else ("static" if "static" in kinds else "dynamic"),
        "layers": len(layers),
        "bytes_per_token": _sum(figures["bytes_per_token"] for figures in layers),
    }
    for what in ("capacity", "reserved", "used"):
        whole[f"{what}_bytes"] = _sum(_bytes(figures, what) for figures in layers)
    return whole


def _bytes(figures: Figures, what: str) -> int | None:
    given: int | None = figures.get(f"{what}_bytes")
    tokens, per_token = figures.get(f"{what}_tokens"), figures["bytes_per_token"]
    if given is not None or tokens is None or per_token is None:
        return given
    size: int = round(tokens * per_token)
    return size


def _sum(parts: Any) -> Any:
    """None where a part is unknown."""
    known = list(parts)
    return None if any(part is None for part in known) else sum(known)


def _free_bytes(layer: Any) -> int | None:
    device = layer.keys.device
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return int(available.split()[1]) * 1024


# Continuous batching.


def _is_paged(value: Any) -> bool:
    loaded = sys.modules.get("transformers.generation.continuous_batching.cache")
    return loaded is not None and isinstance(value, loaded.PagedAttentionCache)


def _read_paged(cache: Any, lengths: dict[str, int]) -> list[Figures]:
    groups = getattr(cache, "cache_allocators", None)
    if groups is not None:
        return [_read_allocator(group, group.tokens_per_page, group.num_blocks, lengths) for group in groups.values()]
    uses = []
    for group in cache.group_cache_managers:  # transformers 4.57
        uses.append(_read_allocator(group, cache.block_size, cache.num_blocks, lengths))
        layer_bytes = 2 * cache.num_key_value_heads * cache.head_dim * cache.dtype.itemsize
        uses[-1].update(layers=cache.group_size, bytes_per_token=float(layer_bytes * cache.group_size))
    return uses


def _read_allocator(group: Any, block_size: int, blocks_total: int, lengths: dict[str, int]) -> Figures:
    """The blocks of the layers of one kind."""
    tables = getattr(group, "block_table", None)
    if tables is None:
        tables = group._block_table
    written: dict[int, int] = {}
    tokens = 0
    known = True
    requests = {request: list(blocks) for request, blocks in list(tables.items())}
    for request, blocks in requests.items():
        length = lengths.get(request)
        known = known and length is not None
        held = min(length or 0, len(blocks) * block_size)
        tokens += held
        for index, block in enumerate(blocks):
            written[block] = max(written.get(block, 0), min(max(held - index * block_size, 0), block_size))
    slots = sum(written.values())
    figures: Figures = {
        "kind": "paged",
        "sequences": len(requests),
        "capacity_tokens": blocks_total * block_size,
        "reserved_tokens": len(written) * block_size,
        "used_tokens": slots if known else None,
        "shared_tokens": tokens - slots if known else None,
        "block_size": block_size,
        "blocks_total": blocks_total,
        "blocks_used": len(written),
        "slots_written": slots if known else None,
    }
    if hasattr(group, "bytes_per_block"):
        figures.update(layers=group.pages_per_block, bytes_per_token=group.bytes_per_block / block_size)
    return figures
