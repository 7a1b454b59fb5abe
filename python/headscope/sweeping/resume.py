"""A file of finished cells, one JSON line each, from which an interrupted sweep goes on."""

from __future__ import annotations

import fcntl
import json
import os
from types import TracebackType
from typing import Any, BinaryIO

from headscope._native import Error
from headscope.sweeping.grid import COORDINATES

_FORMAT = 1
#: A cell that failed is run again: its cause may be gone. One that was not run is not in the file.
_FINISHED = ("ok", "oom", "unavailable")


class ResumeFile:
    """Rows of finished cells; a context manager that holds the file for one sweep alone.

    The first line says which sweep it is. Raises Error when the file is of another sweep, is no such file, is damaged
    in its middle, cannot be written or is held by another process. A last line that was cut off is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], sweep: dict[str, Any]) -> None:
        self._path = os.fspath(path)
        self._sweep = sweep
        self._file: BinaryIO | None = None
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def __enter__(self) -> ResumeFile:
        try:
            self._file = open(self._path, "a+b")
            self._hold()
            self._read()
        except OSError as error:
            self._close()
            raise Error(f"cannot write the resume file {self._path}: {error.strerror}") from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def finished(self, coordinates: dict[str, Any]) -> dict[str, Any] | None:
        """The row of a cell that need not run again; None when there is none."""
        return self._rows.get(_key(coordinates))

    def add(self, row: dict[str, Any]) -> None:
        """Appends a row and hands it to the operating system, so that it outlives this process."""
        self._write(row)

    def _hold(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise Error(f"another sweep writes to {self._path} now: give each a file of its own") from taken

    def _read(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        good = 0
        for number, line in enumerate(lines):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("cut off")
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError("no object")
            except ValueError as damage:
                # A first line that is cut off may be the beginning of any file: it must look like ours to be replaced.
                ours = number > 0 or line.startswith(b'{"headscope_sweep"')
                if not ours:
                    raise self._foreign() from damage
                if number + 1 < len(lines):
                    raise Error(
                        f"line {number + 1} of {self._path} is damaged: remove it, or choose another file"
                    ) from damage
                break
            if number == 0:
                self._compare(entry)
            elif entry.get("status") in _FINISHED:
                self._rows[_key(entry)] = entry
            good += len(line)
        self._file.truncate(good)
        if good == 0:
            self._write({"headscope_sweep": _FORMAT, "sweep": self._sweep})

    def _compare(self, head: dict[str, Any]) -> None:
        if head.get("headscope_sweep") != _FORMAT or not isinstance(head.get("sweep"), dict):
            raise self._foreign()
        theirs, ours = head["sweep"], self._sweep
        different = [
            f"{name} {theirs.get(name)!r} there, {ours.get(name)!r} here"
            for name in dict.fromkeys([*ours, *theirs])
            if theirs.get(name) != ours.get(name)
        ]
        if different:
            raise Error(f"{self._path} is of another sweep ({'; '.join(different)}): give this one another file")

    def _foreign(self) -> Error:
        return Error(f"{self._path} is no resume file of a sweep: give a path that is new, or one that a sweep wrote")

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise Error(f"cannot write the resume file {self._path}: {error.strerror}") from error

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in COORDINATES)
