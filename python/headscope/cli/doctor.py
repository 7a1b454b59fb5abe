"""headscope doctor: what can be measured here, and why not the rest."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import textwrap
from typing import Any

from headscope.cli.loading import load_profiler

_WIDTH = 110


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor", help="what can be measured here", description="Shows what can be measured here, and why not the rest."
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    load_profiler()
    import torch

    from headscope._requirements import build_info
    from headscope.about import capabilities

    versions = {
        "headscope": f"{build_info().VERSION}, built for torch {build_info().TORCH_VERSION}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    for name, value in versions.items():
        print(f"{name:<10} {value}")
    print()
    rows = capabilities()
    broad = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        mark = "yes" if row["available"] else "no"
        lead = f"{row['name']:<{broad}}  {mark:<3}  "
        lines = textwrap.wrap(row["detail"], max(_WIDTH - len(lead), 30)) or [""]
        print(lead + lines[0])
        for line in lines[1:]:
            print(" " * len(lead) + line)
    sys.stdout.flush()
    return 0
