"""Tells on stderr what takes long, so that nobody waits before a silent terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
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


_BETWEEN_UPDATES_S = 0.1


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function of (done, total) that draws a bar on a terminal; None where stderr is none."""
    if not sys.stderr.isatty():
        yield None
        return
    drawn_at = 0.0
    drawn = False

    def draw(done: int, total: int) -> None:
        nonlocal drawn_at, drawn
        moment = time.monotonic()
        if moment - drawn_at < _BETWEEN_UPDATES_S or total <= 0:
            return
        drawn_at, drawn = moment, True
        filled = 30 * done // total
        bar = "█" * filled + "░" * (30 - filled)
        print(f"\rheadscope: {what} {bar} {100 * done // total:3d} %", end="", file=sys.stderr, flush=True)

    try:
        yield draw
    finally:
        if drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
