"""Attention calls as a track of their own in a trace that torch.profiler exports."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_END_OF_EVENTS = re.compile(rb"\]\s*(,[^\[\]]*)?}\s*\Z")
_LOOK = 1 << 16  # bytes at either end of the file in which these stand
_TRACK = "headscope"


def add_track(path: str | os.PathLike[str], calls: list[dict[str, Any]]) -> bool:
    """Adds `calls` (of core.torch_profiler_ended) to the Chrome trace at `path`; False, without a change, for a file
    that is not laid out as torch.profiler lays it out. Memory does not grow with the file.

    Raises:
        OSError: The file cannot be read or written.
    """
    with open(path, "r+b") as file:
        head = file.read(_LOOK)
        size = file.seek(0, os.SEEK_END)
        tail_at = max(size - _LOOK, 0)
        file.seek(tail_at)
        end = _END_OF_EVENTS.search(file.read())
        if end is None or b'"traceEvents"' not in head:
            return False
        base = _BASE.search(head)
        events = ",\n".join(json.dumps(event) for event in _events(calls, int(base[1]) if base else 0))
        file.seek(tail_at + end.start())
        rest = file.read()
        file.seek(tail_at + end.start())
        file.write(b",\n" + events.encode() + b"\n" + rest)
    return True


def _events(calls: list[dict[str, Any]], base_ns: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": _TRACK, "tid": 0, "args": {"name": "headscope: attention"}}
    for thread in sorted({call["thread"] for call in calls}):
        yield {"ph": "M", "name": "thread_name", "pid": _TRACK, "tid": thread, "args": {"name": f"thread {thread}"}}
    for call in calls:
        about = {key: value for key, value in call.items() if key not in ("thread", "start_ns", "end_ns")}
        yield {
            "ph": "X",
            "cat": _TRACK,
            "name": f"{call['layer'] or 'attention'} · {call['variant']} · {call['direction']}",
            "pid": _TRACK,
            "tid": call["thread"],
            "ts": (call["start_ns"] - base_ns) / 1000,
            "dur": (call["end_ns"] - call["start_ns"]) / 1000,
            "args": about,
        }
