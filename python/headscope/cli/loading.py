"""Imports that may fail for a reason that the user can act on."""

from __future__ import annotations

import importlib
from types import ModuleType

from headscope.cli.problem import Problem
from headscope.cli.progress import slow


def load_profiler() -> ModuleType:
    """The module headscope.profiler, with torch and the C++ core behind it."""
    try:
        with slow("loading torch"):
            importlib.import_module("headscope._native")
            return importlib.import_module("headscope.profiler")
    except ImportError as reason:
        raise Problem(str(reason), status=1) from reason
