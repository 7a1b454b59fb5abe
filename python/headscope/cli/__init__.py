"""The headscope command: one module a subcommand, each with add_parser() and run()."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headscope.cli import compare, demo, doctor, run, sweep, trace
from headscope.cli.problem import Problem

_SUBCOMMANDS = (run, sweep, compare, trace, demo, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 2 for wrong use, 1 when headscope cannot work here."""
    parser = argparse.ArgumentParser(prog="headscope", description="Profiles the attention of PyTorch programs.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for subcommand in _SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    options = parser.parse_args(arguments)
    try:
        if options.version:
            return _print_version()
        if not hasattr(options, "run"):
            parser.print_help(sys.stderr)
            return 2
        status: int = options.run(options)
        return status
    except Problem as problem:
        print(f"headscope: {problem}", file=sys.stderr)
        return problem.status


def _print_version() -> int:
    from headscope._requirements import build_info

    try:
        print(f"headscope {build_info().VERSION} for torch {build_info().TORCH_VERSION}")
    except ImportError as reason:
        raise Problem(str(reason), status=1) from reason
    return 0
