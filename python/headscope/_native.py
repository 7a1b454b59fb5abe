"""Loads the C++ core; the one module that imports `_core`.

torch comes first: it brings libtorch into the process, and the core must not be loaded into another version of it.
"""

from __future__ import annotations

from headscope._requirements import build_info, refuse_other_torch

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ImportError("headscope needs torch: pip install torch") from missing

refuse_other_torch(build_info().TORCH_VERSION, torch.__version__)

from headscope import _core as core  # noqa: E402
from headscope._core import Budget, Error, KvCacheTracker, Violation  # noqa: E402

__all__ = ["Budget", "Error", "KvCacheTracker", "Violation", "core"]
