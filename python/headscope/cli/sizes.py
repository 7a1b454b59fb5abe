"""Options that take several sizes."""

from __future__ import annotations

import argparse


def sizes(text: str) -> list[int]:
    """Sizes from "1,4,16", or from "128:4096", each twice the one before. Raises ArgumentTypeError for other text."""
    found: list[int] = []
    for part in text.split(","):
        try:
            bounds = [int(bound) for bound in part.split(":")]
        except ValueError:
            bounds = []
        if len(bounds) not in (1, 2) or min(bounds) <= 0 or bounds[-1] < bounds[0]:
            raise argparse.ArgumentTypeError(f"{text!r} is no list of sizes like 1,4,16 nor a range like 128:4096")
        size = bounds[0]
        while size <= bounds[-1]:
            found.append(size)
            size *= 2
    return found


def words(text: str) -> list[str]:
    """Names from "eager,flex"."""
    return [word.strip() for word in text.split(",") if word.strip()]
