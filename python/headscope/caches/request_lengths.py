"""Tokens of each request in the paged caches of transformers' continuous batching.

A cache knows which blocks a request has, not how many tokens it wrote into them: that passes through the methods which
ask it for the places to read and write. They are wrapped once, at the first use, for the life of the process.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

# Each is called for every request of a batch with (request_id, past_length, query_length, ...).
_METHODS = ("extend_read_and_write_indices", "extend_write_indices", "fill_block_table")

_lengths: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()


def of(cache: Any) -> dict[str, int] | None:
    """Tokens of each request that the cache was asked about; None for another kind of cache."""
    try:
        return _lengths.get(cache)
    except TypeError:  # an unhashable object
        return None


def follow() -> None:
    """Wraps the methods, where continuous batching is loaded. No effect the next time."""
    module = sys.modules.get("transformers.generation.continuous_batching.cache")
    kind = getattr(module, "PagedAttentionCache", None)
    if kind is None:
        return
    for name in _METHODS:
        method = kind.__dict__.get(name)
        if method is not None and not hasattr(method, "headscope_follows"):
            setattr(kind, name, _following(method))


def _following(method: Any) -> Any:
    @functools.wraps(method)
    def ask(cache: Any, *args: Any, **kwargs: Any) -> Any:
        _note(cache, args, kwargs)
        return method(cache, *args, **kwargs)

    ask.headscope_follows = True  # type: ignore[attr-defined]
    return ask


def _note(cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    names = ("request_id", "past_length", "query_length")
    request, past, query = (args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names))
    if isinstance(request, str) and isinstance(past, int) and isinstance(query, int):
        _lengths.setdefault(cache, {})[request] = past + query
