"""Adds up JUnit files and prints `N passed, N failed` alone on a line; skipped tests on a line before it.

Exit status 1 when a test failed, when a file is missing, or when nothing passed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def totals(paths: list[Path]) -> tuple[int, int, int]:
    """Passed, failed and skipped tests; a missing or broken file is one failure."""
    passed = failed = skipped = 0
    for path in paths:
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except (OSError, ElementTree.ParseError) as problem:
            print(f"no results of {path.stem}: {problem}")
            failed += 1
            continue
        for case in cases:
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                skipped += 1
            else:
                passed += 1
    return passed, failed, skipped


def main() -> int:
    passed, failed, skipped = totals([Path(argument) for argument in sys.argv[1:]])
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    raise SystemExit(main())
