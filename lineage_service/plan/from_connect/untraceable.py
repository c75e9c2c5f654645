"""What cannot be traced of a program: the reason, and the line of the program where it is known."""

from __future__ import annotations

from lineage_service.errors import Position


class Untraceable(Exception):
    """A data frame, or a part of it, whose lineage cannot be known exactly. The program still runs, untraced."""

    def __init__(self, reason: str, position: Position | None = None) -> None:
        super().__init__(f"{position}: {reason}" if position is not None else reason)
        self.reason, self.position = reason, position


class UnknownFrameColumn(Untraceable):
    """A name that is no column of a frame; columns that a projection has left out may be meant."""
