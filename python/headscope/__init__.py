"""headscope: what the attention of a PyTorch model really costs.

    from headscope import AttentionProfiler

    with AttentionProfiler() as prof:
        loss = model(**batch).loss
        loss.backward()
    print(prof.get_stats())

The names below load torch and the C++ core when they are first used, so that `import headscope` itself costs
nothing and works without torch. That first use raises ImportError, with the remedy, when torch is missing or is not
the version that headscope was built for.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from headscope._requirements import refuse_unsupported_platform

refuse_unsupported_platform()

if TYPE_CHECKING:
    from headscope._build_info import VERSION as __version__
    from headscope._native import Budget, Error, KvCacheTracker, Violation
    from headscope.about import capabilities, metrics
    from headscope.annotate import layer, register_attention_op
    from headscope.caches import register_kv_cache
    from headscope.comparing import Comparison, compare
    from headscope.profiler import AttentionProfiler
    from headscope.stats import Stats
    from headscope.sweeping import SweepResult, sweep
    from headscope.trace import read_trace

__all__ = [
    "AttentionProfiler",
    "Budget",
    "Comparison",
    "Error",
    "KvCacheTracker",
    "Stats",
    "SweepResult",
    "Violation",
    "__version__",
    "capabilities",
    "cmake_prefix_path",
    "compare",
    "layer",
    "metrics",
    "read_trace",
    "register_attention_op",
    "register_kv_cache",
    "sweep",
]

#: For CMAKE_PREFIX_PATH of a C++ project that calls find_package(headscope).
cmake_prefix_path: str = os.path.dirname(os.path.abspath(__file__))

_HOMES = {
    "AttentionProfiler": "headscope.profiler",
    "Budget": "headscope._native",
    "Comparison": "headscope.comparing",
    "Error": "headscope._native",
    "KvCacheTracker": "headscope._native",
    "Stats": "headscope.stats",
    "SweepResult": "headscope.sweeping",
    "Violation": "headscope._native",
    "capabilities": "headscope.about",
    "compare": "headscope.comparing",
    "layer": "headscope.annotate",
    "metrics": "headscope.about",
    "read_trace": "headscope.trace",
    "register_attention_op": "headscope.annotate",
    "register_kv_cache": "headscope.caches",
    "sweep": "headscope.sweeping",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from headscope._requirements import build_info

        value = build_info().VERSION
    elif name in _HOMES:
        importlib.import_module("headscope._native")
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'headscope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
