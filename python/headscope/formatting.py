"""Figures as short text. What is unknown (None) is a dash."""

from __future__ import annotations

from typing import Any

_UNITS = ("", "k", "M", "G", "T", "P", "E")


def quantity(value: Any, unit: str = "") -> str:
    """1,234,567 → 1.23 M. JSON files hold integers above 2**53 as text."""
    if value is None:
        return "–"
    number = float(value)
    step = 0
    while abs(number) >= 1000 and step < len(_UNITS) - 1:
        number /= 1000
        step += 1
    text = f"{number:.3g}" if number < 1000 else f"{number:.0f}"
    return f"{text} {_UNITS[step]}{unit}".rstrip()


def duration(nanoseconds: Any) -> str:
    if nanoseconds is None:
        return "–"
    number = float(nanoseconds)
    for unit in ("ns", "µs", "ms"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} s" if number < 1000 else f"{number:.0f} s"


def percent(share: Any) -> str:
    return "–" if share is None else f"{100 * float(share):.1f} %"


def rate(value: Any) -> str:
    return "–" if value is None else f"{float(value):.3g}"


def span(value: Any) -> str:
    return f"{value['min']}–{value['max']}" if isinstance(value, dict) else str(value)
