"""headscope run: profiles a script or a module as `python` would run it."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headscope.cli.loading import load_profiler
from headscope.cli.output import check_output
from headscope.cli.problem import Problem
from headscope.cli.terminal import width

_USAGE = "headscope run [options] SCRIPT [args]\n       headscope run [options] -m MODULE [args]"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        usage=_USAGE,
        help="profile a script or module",
        description="Runs SCRIPT (or the module after -m) with args, writes a JSON report and prints a table. "
        "Each step of a torch optimizer ends a step of the profile.",
    )
    parser.add_argument(
        "-o", "--output", default="headscope.json", metavar="PATH", help="report (default: %(default)s)"
    )
    parser.add_argument("--heads-of", default="", metavar="GLOB", help="also show the heads of the layers that match")
    parser.add_argument("--eager", default="basic", choices=("basic", "off", "detail"), help="hand-written attention")
    parser.add_argument("--memory", default="calls", choices=("calls", "off"), help="what is measured about memory")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="the script or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="args", help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_output(options.output)
    if not options.module and not os.path.isfile(options.script):
        raise Problem(f"there is no script {options.script}")
    profiler = load_profiler().AttentionProfiler(eager=options.eager, memory=options.memory)
    try:
        with profiler, _steps_of_optimizers(profiler):
            status = _run_as_main(options.script, options.arguments, is_module=options.module)
    finally:
        # Also when the program failed: what it did up to there is why one looks.
        _report(profiler, options)
    return status


@contextlib.contextmanager
def _steps_of_optimizers(profiler: Any) -> Iterator[None]:
    """A script without prof.step() has steps all the same, so that a layer has the same number in all of them."""
    from torch.compiler import is_compiling
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def end_step(*_: object) -> None:
        if not is_compiling() and profiler.running:
            profiler.step()

    handle = register_optimizer_step_post_hook(end_step)
    try:
        yield
    finally:
        handle.remove()


def _run_as_main(target: str, arguments: list[str], *, is_module: bool) -> int:
    sys.argv = [target, *arguments]
    try:
        if is_module:
            sys.path.insert(0, os.getcwd())
            _check_module(target)
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(target)))
            _execute_script(target)
    except SystemExit as end:
        return _status_of(end)
    return 0


def _execute_script(path: str) -> None:
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__file__=path, __builtins__=__builtins__)
    try:
        code = compile(Path(path).read_bytes(), path, "exec")
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from error
    # Stays in place: worker processes and pickles of the script look for its names there.
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)


def _check_module(name: str) -> None:
    import importlib.util

    try:
        found = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise Problem(f"there is no module {name}")


def _status_of(end: SystemExit) -> int:
    """What the interpreter makes of sys.exit(code)."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1


def _report(profiler: Any, options: argparse.Namespace) -> None:
    from headscope import Error

    stats = profiler.get_stats()
    print(stats.table(heads_of=options.heads_of, width=width()), flush=True)
    try:
        stats.to_json(options.output)
    except Error as error:
        print(f"headscope: {error}", file=sys.stderr)
    else:
        print(f"headscope: report in {options.output}", file=sys.stderr)
