"""Interleaved rounds, and what to say about them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class Samples:
    """Times of each variant, one a round, in nanoseconds; a variant may sit out rounds (None)."""

    rounds: dict[str, list[float | None]] = field(default_factory=dict)

    def extend(self, other: Samples) -> None:
        for variant, values in other.rounds.items():
            self.rounds.setdefault(variant, []).extend(values)

    def _known(self, variant: str) -> list[float]:
        return [value for value in self.rounds[variant] if value is not None]

    def minimum(self, variant: str) -> float:
        return min(self._known(variant))

    def median(self, variant: str) -> float:
        return statistics.median(self._known(variant))

    def extra_of_minima(self, variant: str, base: str) -> float:
        return self.minimum(variant) - self.minimum(base)

    def median_extra(self, variant: str, base: str) -> float:
        """Median of the differences within a round, which a slow drift of the machine does not move."""
        pairs = zip(self.rounds[variant], self.rounds[base], strict=True)
        return statistics.median(a - b for a, b in pairs if a is not None and b is not None)

    def ratio_of_minima(self, variant: str, base: str) -> float:
        return self.minimum(variant) / self.minimum(base)

    def median_ratio(self, variant: str, base: str) -> float:
        pairs = zip(self.rounds[variant], self.rounds[base], strict=True)
        return statistics.median(a / b for a, b in pairs if a is not None and b is not None)


def interleave(variants: Mapping[str, Callable[[], float]], rounds: int, seldom: Mapping[str, int]) -> Samples:
    """Runs every variant once a round, each round beginning with another one; `seldom[v]` = n runs v in one round
    of n. A first round warms up and is not kept."""
    samples = Samples({name: [] for name in variants})
    names = list(variants)
    for measure in variants.values():
        measure()
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            runs = index % seldom.get(name, 1) == 0
            samples.rounds[name].append(variants[name]() if runs else None)
    return samples


def table(title: str, header: list[str], rows: list[list[str]]) -> str:
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [title]
    for row in cells:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  " + "  ".join([first, *rest]).rstrip())
    return "\n".join(lines)
