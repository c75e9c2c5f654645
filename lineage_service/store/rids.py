"""Row ids: the rows of a version have positions, and each position has a rid.

In a new version rid and position are equal. A version made by removing rows keeps the rids of the others, so their
positions change and their rids do not. A sorted list of gaps describes that, like a deletion vector.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

Rid = NewType("Rid", int)
Position = NewType("Position", int)


@dataclass(frozen=True)
class RidMap:
    """Position to rid, monotone. `gaps` are (position, skipped): from that position on, rids are larger by
    `skipped`.
    """

    rows: int
    gaps: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        positions = [position for position, _ in self.gaps]
        if positions != sorted(set(positions)) or any(skipped <= 0 for _, skipped in self.gaps):
            raise ValueError("gaps must be sorted by position, each skipping at least one rid")

    @classmethod
    def of_rids(cls, rids: Iterable[int]) -> RidMap:
        """The map of a version whose rows have these rids, in ascending order."""
        gaps, expected, count = [], 0, 0
        for position, rid in enumerate(rids):
            if rid < expected:
                raise ValueError("rids must ascend")
            if rid > expected:
                gaps.append((position, rid - expected))
            expected, count = rid + 1, position + 1
        return cls(count, tuple(gaps))

    @cached_property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """(first position, difference of rid and position), ascending, starting at position 0."""
        result, ahead = [(0, 0)], 0
        for position, skipped in self.gaps:
            ahead += skipped
            if position == 0:
                result = [(0, ahead)]
            else:
                result.append((position, ahead))
        return tuple(result)

    @property
    def dense(self) -> bool:
        return not self.gaps

    @property
    def end(self) -> int:
        """One past the largest rid."""
        return self.rows + self.segments[-1][1]

    def rid(self, position: int) -> Rid:
        starts = [start for start, _ in self.segments]
        return Rid(position + self.segments[bisect_right(starts, position) - 1][1])

    def position(self, rid: int) -> Position | None:
        """The position of the row with that rid; None if it was removed or never existed."""
        firsts = [start + ahead for start, ahead in self.segments]
        index = bisect_right(firsts, rid) - 1
        if index < 0:
            return None
        position = rid - self.segments[index][1]
        following = self.segments[index + 1][0] if index + 1 < len(self.segments) else self.rows
        return Position(position) if self.segments[index][0] <= position < following else None
