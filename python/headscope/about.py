"""What headscope can measure here, and what its figures mean."""

from __future__ import annotations

from typing import Any

from headscope._native import core


def capabilities() -> list[dict[str, Any]]:
    """What can be measured in this process: dicts of `name`, `available` and `detail` (how, or why not)."""
    return core.capabilities()


def metrics() -> list[dict[str, str]]:
    """The catalogue of figures: dicts of `id` (key of a row), `unit`, `heading`, `description`, `provenance`."""
    return core.metrics()
