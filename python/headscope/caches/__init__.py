"""Key/value caches of Python programs: found in a model's calls, or registered by hand."""

from headscope.caches.registered import RegisteredKvCache, register_kv_cache

__all__ = ["RegisteredKvCache", "register_kv_cache"]
