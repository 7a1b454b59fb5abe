"""headscope compare: implementations of attention side by side."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from headscope.cli.loading import load_profiler
from headscope.cli.output import check_output
from headscope.cli.problem import Problem
from headscope.cli.progress import progress_bar
from headscope.cli.sizes import words
from headscope.cli.terminal import width


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "compare",
        help="compare implementations of attention",
        description="Runs the same attention in each implementation: time, traffic, memory, and how far the result is "
        "from float64. What does not run here is listed with the reason.",
    )
    whole = {"type": int, "metavar": "N"}
    parser.add_argument("--batch", default=16, help="batch size (default: %(default)s)", **whole)
    parser.add_argument("--heads", default=8, help="query heads (default: %(default)s)", **whole)
    parser.add_argument("--kv-heads", help="key and value heads (default: as many)", **whole)
    parser.add_argument("--q-len", default=512, help="queries (default: %(default)s)", **whole)
    parser.add_argument("--kv-len", help="keys (default: as many)", **whole)
    parser.add_argument("--head-dim", default=64, help="size of a head (default: %(default)s)", **whole)
    parser.add_argument("--head-dim-v", help="size of a value head (default: the same)", **whole)
    parser.add_argument("--dtype", default="float32", metavar="NAME", help="such as bfloat16 (default: %(default)s)")
    parser.add_argument("--full", action="store_true", help="each query sees all keys (default: causal)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (the default), cuda, …")
    parser.add_argument("--backward", action="store_true", help="a run is a forward and its backward")
    parser.add_argument("--variants", type=words, metavar="NAMES", help="such as eager,sdpa_flash (default: all)")
    parser.add_argument("--warmup", default=3, help="runs before the clock (default: %(default)s)", **whole)
    parser.add_argument("--repeats", default=20, help="timed runs (default: %(default)s)", **whole)
    parser.add_argument("--min-time", type=float, default=0.0, metavar="S", help="seconds of timed runs, at least")
    parser.add_argument("-o", "--output", metavar="PATH", help="result in JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_output(options.output)
    load_profiler()
    from headscope import Error, compare
    from headscope.attention_variants import VARIANTS

    try:
        with progress_bar("comparing") as progress:
            comparison = compare(
                batch=options.batch,
                heads=options.heads,
                kv_heads=options.kv_heads,
                q_len=options.q_len,
                kv_len=options.kv_len,
                head_dim=options.head_dim,
                head_dim_v=options.head_dim_v,
                dtype=options.dtype,
                causal=not options.full,
                device=options.device,
                backward=options.backward,
                variants=VARIANTS if options.variants is None else options.variants,
                warmup=options.warmup,
                repeats=options.repeats,
                min_time_s=options.min_time,
                progress=progress,
            )
        print(comparison.table(width=width()), flush=True)
        if options.output is not None:
            comparison.to_json(options.output)
            print(f"headscope: result in {options.output}", file=sys.stderr)
    except Error as error:
        raise Problem(str(error)) from error
    return 0
