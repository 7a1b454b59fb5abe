"""headscope sweep: attention over a grid of sizes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from headscope.cli.loading import load_profiler
from headscope.cli.output import check_output
from headscope.cli.problem import Problem
from headscope.cli.progress import progress_bar
from headscope.cli.sizes import sizes, words
from headscope.cli.terminal import width


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "sweep",
        help="measure attention over a grid of sizes",
        description="Measures attention, or a model or function of yours, in every cell of a grid of sizes; names the "
        "batch of most throughput per byte and the steps from which time or memory outgrows its axis. Sizes are a list "
        "(1,4,16), or a range of which each is twice the one before (128:4096).",
    )
    parser.add_argument(
        "--target",
        metavar="MODULE:NAME",
        help="what to measure: a function of a cell, a model, or a function without parameters that makes a model "
        "(default: attention alone)",
    )
    parser.add_argument("--batch", type=sizes, default=[1], metavar="SIZES", help="batch sizes (default: 1)")
    parser.add_argument("--q-len", type=sizes, metavar="SIZES", help="lengths of prompts")
    parser.add_argument("--kv-len", type=sizes, metavar="SIZES", help="keys in all, those of the prompt among them")
    parser.add_argument("--heads", type=int, metavar="N", help="query heads (attention alone needs them)")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="key and value heads (default: as many)")
    parser.add_argument("--head-dim", type=int, metavar="N", help="size of a head (default: 64)")
    parser.add_argument("--head-dim-v", type=int, metavar="N", help="size of a value head (default: the same)")
    parser.add_argument("--variants", type=words, metavar="NAMES", help="such as eager,sdpa_flash,flex")
    parser.add_argument(
        "--phases",
        type=words,
        default=["prefill"],
        metavar="NAMES",
        help="of prefill, decode, encode (default: prefill)",
    )
    parser.add_argument("--dtype", type=words, metavar="NAMES", help="such as float32,bfloat16 (default: float32)")
    parser.add_argument("--device", metavar="NAME", help="cpu (the default), cuda, …")
    parser.add_argument(
        "--warmup", type=int, default=2, metavar="N", help="runs before the clock (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="timed runs (default: %(default)s)")
    parser.add_argument("--min-time", type=float, default=0.0, metavar="S", help="seconds of timed runs, at least")
    parser.add_argument("--budget", type=float, metavar="S", help="seconds after which no further cell begins")
    parser.add_argument("--resume", metavar="PATH", help="keep finished cells here, and go on from them")
    parser.add_argument("-o", "--output", metavar="PATH", help="result in JSON")
    parser.add_argument("--html", metavar="PATH", help="result as a page")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_output(options.output)
    check_output(options.html, "--html")
    load_profiler()
    from headscope import Error, sweep

    try:
        with progress_bar("sweeping") as progress:
            result = sweep(
                _target(options.target),
                batch=options.batch,
                q_len=options.q_len,
                kv_len=options.kv_len,
                heads=options.heads,
                kv_heads=options.kv_heads,
                head_dim=options.head_dim,
                head_dim_v=options.head_dim_v,
                variants=options.variants,
                phases=options.phases,
                dtype=options.dtype,
                device=options.device,
                warmup=options.warmup,
                repeats=options.repeats,
                min_time_s=options.min_time,
                budget_s=options.budget,
                resume=options.resume,
                progress=progress,
            )
        print(result.table(width=width()), flush=True)
        for path, write in ((options.output, result.to_json), (options.html, result.to_html)):
            if path is not None:
                write(path)
                print(f"headscope: result in {path}", file=sys.stderr)
    except Error as error:
        raise Problem(str(error)) from error
    except KeyboardInterrupt:
        kept = f"finished cells are in {options.resume}" if options.resume else "give --resume PATH to keep cells"
        raise Problem(f"interrupted; {kept}", status=130) from None
    return 0


def _target(text: str | None) -> Any:
    if text is None:
        return None
    module, colon, name = text.partition(":")
    if not colon:
        raise Problem(f"--target {text} names no object: write it as MODULE:NAME")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as missing:
        raise Problem(f"--target {text}: {missing}") from missing
    except AttributeError as missing:
        raise Problem(f"--target {text}: {missing}") from missing
    return _made(found)


def _made(found: Any) -> Any:
    """The model that a function without parameters makes; anything else is a target as it is."""
    import inspect

    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return found()
    return found
