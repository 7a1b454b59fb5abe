"""Recorded traces of torch.profiler as input."""

from __future__ import annotations

import os
from collections.abc import Callable

from headscope._native import core
from headscope.stats import Stats


def read_trace(
    path: str | os.PathLike[str],
    *,
    per_head: bool = True,
    decode_max_q: int = 1,
    keep_calls: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Stats:
    """The attention in a trace of torch.profiler (`export_chrome_trace` and the like), .json or .json.gz.

    The Stats are those that a profiler gives. Times are the kernels' where the trace holds a device, else the ops' on
    the host. FLOPs and bytes need shapes (`record_shapes=True`), layer names need modules (`with_modules=True` or
    `with_stack=True`). Memory is not read.

    `keep_calls`: how many of the last calls `stats.calls` lists, each with its kernels. `progress(done, total)` is
    called while the file is read, in bytes of the file. Raises Error, with the byte where reading ended, for a file
    that cannot be read, is damaged, cut off or no trace; `stats["meta"]["trace"]["skipped"]` counts what was left out.
    """
    return Stats(
        core.read_trace(
            os.fspath(path), per_head=per_head, decode_max_q=decode_max_q, keep_calls=keep_calls, progress=progress
        )
    )
