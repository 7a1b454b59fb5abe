"""Where reports go."""

from __future__ import annotations

import os

from headscope.cli.problem import Problem


def check_output(path: str | None, option: str = "-o") -> None:
    """Finds out before the work, not after hours of it, that a report cannot be written. Raises Problem that names the
    option which takes the path."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise Problem(f"cannot write {path}: choose a file in a folder that exists and is writable ({option} PATH)")
