"""What the terminal can show."""

from __future__ import annotations

from shutil import get_terminal_size


def width() -> int:
    """Columns of the terminal; 120 where there is none."""
    return get_terminal_size(fallback=(120, 24)).columns
