"""Lines of cells as columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(lines: Sequence[Sequence[str]], width: int) -> str:
    """Columns as wide as their longest cell; the first line is the heading. No line is longer than `width`.

    Columns in which all lines agree move into a line above.
    """
    same = [
        column for column in range(len(lines[0])) if len(lines) > 2 and len({line[column] for line in lines[1:]}) == 1
    ]
    shared = " · ".join(f"{lines[0][column]} {lines[1][column]}".rstrip() for column in same if lines[1][column])
    shown = [[cell for column, cell in enumerate(line) if column not in same] for line in lines]
    widths = [max(len(line[column]) for line in shown) for column in range(len(shown[0]))]
    texts = ["  ".join(cell.rjust(space) for cell, space in zip(line, widths, strict=True)) for line in shown]
    texts.insert(1, "─" * len(texts[0]))
    if shared:
        texts.insert(0, f"in all rows: {shared}")
    return "\n".join(text if len(text) <= width else text[: width - 1] + "…" for text in texts)
