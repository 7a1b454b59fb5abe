"""headscope trace: the attention in traces that torch.profiler has recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headscope.cli.loading import load_profiler
from headscope.cli.output import check_output
from headscope.cli.problem import Problem
from headscope.cli.progress import progress_bar
from headscope.cli.terminal import width
from headscope.formatting import duration, percent


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "trace",
        help="read traces of torch.profiler",
        description="Reads traces that torch.profiler has exported (.json, .json.gz), a table each; of several ranks "
        "also a comparison.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace; several of one run are its ranks")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="report in JSON; of several traces a folder for a report each"
    )
    parser.add_argument("--heads-of", default="", metavar="GLOB", help="also show the heads of the layers that match")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    reports = _reports(options.files, options.output)
    load_profiler()
    from headscope import Error, read_trace

    read: list[tuple[str, Any]] = []
    for path, report in zip(options.files, reports, strict=True):
        try:
            with progress_bar(f"reading {path}") as progress:
                stats = read_trace(path, progress=progress)
            if len(options.files) > 1:
                print(f"{path}{_rank_of(stats)}")
            print(stats.table(heads_of=options.heads_of, width=width()), flush=True)
            if report is not None:
                stats.to_json(report)
                print(f"headscope: report in {report}", file=sys.stderr)
            read.append((path, stats))
        except Error as error:
            print(f"headscope: {error}", file=sys.stderr)
    if len(read) > 1:
        print(_comparison(read))
    return 0 if len(read) == len(options.files) else 1


def _reports(files: Sequence[str], output: str | None) -> list[Path | None]:
    """Where the report of each trace goes; found out before any is read."""
    if output is None:
        return [None] * len(files)
    if len(files) == 1:
        check_output(output)
        return [Path(output)]
    if not os.path.isdir(output) or not os.access(output, os.W_OK):
        raise Problem(f"cannot write reports to {output}: of several traces give a folder that exists and is writable")
    names = [Path(file).name.removesuffix(".gz").removesuffix(".json") + ".headscope.json" for file in files]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise Problem(f"two traces would have the report {min(doubled)}: read them one at a time")
    return [Path(output) / name for name in names]


def _rank_of(stats: Any) -> str:
    trace = stats["meta"]["trace"]
    return "" if trace["rank"] is None else f" (rank {trace['rank']} of {trace['world_size'] or '?'})"


def _comparison(read: Sequence[tuple[str, Any]]) -> str:
    """A line a trace, and how far the slowest is behind the fastest."""
    rows = [["rank", "trace", "calls", "attention", "of wall", "forward", "backward", "device idle"]]
    for path, stats in read:
        time, rank = stats["time"], stats["meta"]["trace"]["rank"]
        rows.append(
            [
                "–" if rank is None else str(rank),
                Path(path).name,
                str(stats.total["calls"]),
                duration(time["attention_ns"]),
                percent(time["attention_share"]),
                duration(time["forward_ns"]),
                duration(time["backward_ns"]),
                duration(time["gaps"]["device_idle_ns"]),
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(space) for cell, space in zip(row, widths, strict=True)).rstrip() for row in rows]
    times = [stats["time"]["attention_ns"] for _, stats in read]
    if min(times) > 0:
        lines.append(f"slowest ÷ fastest attention: {max(times) / min(times):.3f}")
    return "\n".join(lines)
