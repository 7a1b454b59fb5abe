"""Caches that the program registers itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from headscope._native import Error, core


class RegisteredKvCache:
    """A cache that the program told headscope about; see `register_kv_cache`."""

    def __init__(self, name: str, tensors: list[torch.Tensor], slots: int, layers: int) -> None:
        self.name = name
        self._slots = slots
        self._layers = layers
        self._bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self._gauge: core.KvCacheGauge | None = core.KvCacheGauge(name)
        self._registered = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        _live.update(dict.fromkeys(self._registered, name))
        self.set_used(0)

    def set_used(self, tokens: int, *, padding: int | None = None, sequences: int | None = None) -> None:
        """Says how many slots are written (of all sequences together), and how many of them hold padding.

        Raises Error for a number below 0 or above the slots of the cache, and after close().
        """
        if self._gauge is None:
            raise Error(f"the KV cache {self.name} was closed: register it again")
        self._gauge.set(
            [
                {
                    "kind": "registered",
                    "layers": self._layers,
                    "sequences": sequences,
                    "capacity_tokens": self._slots,
                    "reserved_tokens": self._slots,
                    "used_tokens": tokens,
                    "padding_tokens": padding,
                    "bytes_per_token": self._bytes / self._slots,
                }
            ]
        )

    def close(self) -> None:
        """The cache is gone; its last figures stay. No effect when closed."""
        self._gauge = None
        for storage in self._registered:
            _live.pop(storage, None)
        self._registered = set()

    def __enter__(self) -> RegisteredKvCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


#: Storages of the caches that are registered, and the name of each.
_live: dict[int, str] = {}


def register_kv_cache(
    name: str,
    keys: torch.Tensor | Iterable[torch.Tensor],
    values: torch.Tensor | Iterable[torch.Tensor] | None = None,
    *,
    slots: int,
) -> RegisteredKvCache:
    """Shows a cache of the program's own in `stats["kv_cache"]`.

    keys, values: the tensors that hold it, one a layer (any shape; a tensor of both may be given as keys).
    slots: tokens that it holds when full, over all sequences: batch × longest sequence.

    Returns a handle: call its `set_used(tokens)` as the cache fills, and `close()` when it is freed (also a context
    manager). The tensors are not kept alive. Raises Error for a cache that is registered already. A paged cache is
    better kept with `headscope.KvCacheTracker`, which knows blocks and sequences.
    """
    key_list = _tensors("keys", keys)
    value_list = [] if values is None else _tensors("values", values)
    if value_list and len(value_list) != len(key_list):
        raise Error(f"keys has {len(key_list)} layers and values {len(value_list)}: give one tensor a layer in each")
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        raise Error(f"slots must be an int of 1 or more (batch × longest sequence), not {slots!r}")
    tensors = key_list + value_list
    for tensor in tensors:
        known = _live.get(tensor.untyped_storage().data_ptr())
        if known is not None:
            raise Error(f"this cache is registered already, as {known!r}: close() that first")
    return RegisteredKvCache(name, tensors, slots, len(key_list))


def _tensors(name: str, given: Any) -> list[torch.Tensor]:
    tensors = [given] if isinstance(given, torch.Tensor) else list(given)
    if not tensors or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise Error(f"{name} must be a tensor, or one tensor a layer, not {given!r:.80}")
    if any(tensor.numel() == 0 for tensor in tensors):
        raise Error(f"{name} holds a tensor without elements: register the cache once it is allocated")
    return tensors
