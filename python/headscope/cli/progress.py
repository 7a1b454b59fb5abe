"""Tells on stderr what takes long, so that nobody waits before a silent terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 2.0


@contextmanager
def slow(what: str) -> Iterator[None]:
    """Prints `what` once the block has taken more than two seconds."""
    timer = threading.Timer(_PATIENCE_S, lambda: print(f"headscope: {what} …", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
