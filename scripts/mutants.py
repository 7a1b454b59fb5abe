#!/usr/bin/env python3
"""Breaks the device clock on purpose, one fault at a time, and sees that a test notices each.

    python3 scripts/mutants.py [--only WORDS] [--check]      # Python 3.11 or later

A mutant replaces one passage of one source; tests/mutants/device_clock.toml lists them. They are built in a copy of the
tree (build/mutants) without torch, and run against the tests of the device clock and of the pure stages. A fault that
survives is a gap in the tests. --check only tells whether each passage is where the list says.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/mutants/device_clock.toml"
WORK = ROOT / "build/mutants"
TESTS = ("headscope_cupti_tests", "headscope_unit_tests")
TEST_SECONDS = 60


@dataclass(frozen=True)
class Mutant:
    fault: str
    file: str
    old: str
    new: str


def read_list() -> list[Mutant]:
    """The mutants of the list.

    Raises:
        SystemExit: A passage does not occur exactly once.
    """
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text())["mutant"]]
    for mutant in mutants:
        times = (ROOT / mutant.file).read_text().count(mutant.old)
        if times != 1:
            sys.exit(f'"{mutant.fault}": its passage occurs {times} times in {mutant.file}; mend {LIST.name}')
    return mutants


def copy_tree() -> Path:
    """The files that git knows or would add, as a copy whose unchanged files keep their times."""
    source = WORK / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        here, there = ROOT / name, source / name
        if here.exists() and not (there.exists() and there.read_bytes() == here.read_bytes()):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)
    return source


def build() -> bool:
    jobs = os.environ.get("HEADSCOPE_JOBS", str(os.cpu_count()))
    command = ["nice", "cmake", "--build", str(WORK / "build"), "-j", jobs, "--target", *TESTS]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def first_failure() -> str | None:
    """What noticed the fault; None when every test passed."""
    for name in TESTS:
        program = next((WORK / "build").rglob(name))
        command = [str(program), "--gtest_brief=1"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=TEST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"{name} did not end"
        if run.returncode != 0:
            failed = re.search(r"\[  FAILED  \] ([\w./]+)", run.stdout)
            return failed.group(1) if failed else f"{name} ended with {run.returncode}"
    return None


def survives(mutant: Mutant, source: Path) -> bool:
    file = source / mutant.file
    whole = file.read_text()
    begin = time.monotonic()
    try:
        file.write_text(whole.replace(mutant.old, mutant.new))
        noticed = first_failure() if build() else "the compiler"
    finally:
        file.write_text(whole)
    verdict = "SURVIVED" if noticed is None else f"caught by {noticed}"
    print(f"{mutant.fault:<72} {verdict} ({time.monotonic() - begin:.0f} s)", flush=True)
    return noticed is None or noticed == "the compiler"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose name holds these words")
    parser.add_argument("--check", action="store_true", help="only see that the list fits the sources")
    options = parser.parse_args()
    mutants = [mutant for mutant in read_list() if options.only in mutant.fault]
    if options.check:
        print(f"{len(mutants)} mutants fit the sources")
        return 0
    source = copy_tree()
    flags = ["-DCMAKE_BUILD_TYPE=Debug", "-DHEADSCOPE_WITH_TORCH=OFF", "-DHEADSCOPE_BUILD_TESTS=ON"]
    if shutil.which("ccache"):
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    configure = ["cmake", "-S", str(source), "-B", str(WORK / "build"), "-G", "Ninja", *flags]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    if not build():
        sys.exit("the sources do not build as they are")
    if failure := first_failure():
        sys.exit(f"the tests fail without a mutant: {failure}")
    survivors = sum(survives(mutant, source) for mutant in mutants)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught")
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main())
