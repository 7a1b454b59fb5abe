"""What goes wrong in a subcommand and is told to the user in one line."""

from __future__ import annotations


class Problem(Exception):
    """Ends the command with a short message: `status` 2 for wrong use, 1 when something is missing."""

    def __init__(self, message: str, *, status: int = 2) -> None:
        super().__init__(message)
        self.status = status
