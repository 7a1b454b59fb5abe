"""How results leave: as a text file, as a table of pandas."""

from __future__ import annotations

import importlib
import os
from typing import Any

from headscope._native import Error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` in UTF-8. Raises Error when the file cannot be written."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Error(f"cannot write {os.fspath(path)}: {error.strerror}") from error


def data_frame(rows: list[dict[str, Any]]) -> Any:
    """A pandas.DataFrame, one line a row. Raises Error when pandas is missing."""
    try:
        pandas = importlib.import_module("pandas")
    except ModuleNotFoundError as missing:
        raise Error("to_pandas() needs pandas: pip install pandas") from missing
    return pandas.DataFrame(rows)
