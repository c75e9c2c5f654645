"""The source rows behind the changes of a diff where a window is on the way: counted change by change, as rows come and
go from one to the next. The same answer as by pairs of changes and rows, which may be rows squared."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import numpy as np

from lineage_service.query.moving_rows import MovingRows
from lineage_service.store.patching import Ids

Change = tuple[int, int | None, int | None]  # its number, and its rows before and after
Elsewhere = Literal["looked up", "there", "unknown"]
KINDS = ("changed", "added", "removed")  # in the order in which they are shown by turns


@dataclass(frozen=True)
class Side:
    """One run's rows of a source. `classes`: what each row is known again by, a number; `rids` of the whole version."""

    moving: MovingRows | None  # None: no row of it is behind any change
    rids: Ids
    classes: Ids


@dataclass(frozen=True)
class Shown:
    """A row behind a change that is shown; None of `known`: nothing is known of the other version."""

    kind: str
    known: bool | None
    before: int | None
    after: int | None

    @property
    def order(self) -> tuple[int, int]:
        rid = self.before if self.after is None else self.after
        return 0 if self.known is None else 1 + self.known, -1 if rid is None else rid


_Entry = tuple[tuple[int, int], int, int, Shown]  # what it is sorted by, when it came, its class

ADDED, NEW, REMOVED, GONE, CHANGED, SAME = range(6)


@dataclass
class Tally:
    """Rows behind a change: how many (added, new of those, removed, gone of those, changed, same), and some to show."""

    counts: list[int] = field(default_factory=lambda: [0] * 6)
    shown: list[Shown] = field(default_factory=list)


class MovingDifference:
    """What is behind both sides of one change after another.

    changed: classes whose rows, one in each version, differ
    elsewhere: of a row behind one side only, whether the other version has it: looked up, by its class; `there` in any
    case; or nobody can tell · named: the row that it has there is told
    """

    def __init__(
        self, sides: tuple[Side, Side], classes: int, changed: Ids, elsewhere: Elsewhere, *, named: bool
    ) -> None:
        self._sides = _Present(sides[0], classes), _Present(sides[1], classes)
        self._changed = np.zeros(classes, bool)
        self._changed[changed] = True
        self._elsewhere, self._named = elsewhere, named
        self._total = [0] * 6
        self._of: dict[int, Tally] = {}  # of classes that are behind the change at hand
        self._waiting: dict[str, list[_Entry]] = {kind: [] for kind in KINDS}
        self._entries = count()

    def counted(self, changes: Sequence[Change], rows: int) -> Iterator[tuple[int, Tally, tuple[int, int]]]:
        """Per change what is behind it, `rows` of it to show, and how many rows are behind either side; in an order in
        which that is quick."""
        for n, before, after in self._in_order(changes):
            for each in self._sides[0].move_to(before) | self._sides[1].move_to(after):
                self._count(each)
            yield n, Tally([*self._total], self._shown(rows)), (self._sides[0].rows, self._sides[1].rows)

    def _in_order(self, changes: Sequence[Change]) -> list[Change]:
        for place in (2, 1):
            moving = self._sides[place - 1].moving
            if moving is not None:
                there = np.array([-1 if each[place] is None else each[place] for each in changes], np.int64)
                ranks = np.full(len(there), -1)
                ranks[there >= 0] = moving.ranks(there[there >= 0])
                return [changes[index] for index in np.argsort(ranks, kind="stable").tolist()]
        return list(changes)

    def _count(self, each: int) -> None:
        """Counts one class anew."""
        old = self._of.pop(each, None)
        if old is not None:
            for place, number in enumerate(old.counts):
                self._total[place] -= number
        before, after = self._sides[0].counts[each], self._sides[1].counts[each]
        if not before and not after:
            return
        both, new = min(before, after), Tally()
        if both and self._changed[each]:
            new.counts[CHANGED] = both
            new.shown.append(Shown("changed", True, self._sides[0].present(each)[0], self._sides[1].present(each)[0]))
        else:
            new.counts[SAME] = both
        new.counts[ADDED], new.counts[REMOVED] = after - both, before - both
        if before != after:
            new.shown += self._one_sided(each, both)
            new.counts[NEW] = sum(one.kind == "added" and one.known is False for one in new.shown)
            new.counts[GONE] = sum(one.kind == "removed" and one.known is False for one in new.shown)
        self._of[each] = new
        for place, number in enumerate(new.counts):
            self._total[place] += number
        for shown in new.shown:
            heapq.heappush(self._waiting[shown.kind], (shown.order, next(self._entries), each, shown))

    def _one_sided(self, each: int, both: int) -> Iterator[Shown]:
        """The copies of a class that are behind one side only: the last ones by rid."""
        is_added = self._sides[1].counts[each] > both
        mine, theirs = self._sides[int(is_added)], self._sides[int(not is_added)]
        there = theirs.of_class(each)
        for copy, rid in enumerate(mine.present(each)):
            if copy < both:
                continue
            known = {"looked up": copy < len(there), "there": True, "unknown": None}[self._elsewhere]
            other = there[0] if self._named and known else None
            yield Shown("added", known, other, rid) if is_added else Shown("removed", known, rid, other)

    def _shown(self, rows: int) -> list[Shown]:
        """Some rows by turns, one of each kind."""
        firsts = {kind: self._first(self._waiting[kind], rows) for kind in KINDS}
        turns = [firsts[kind][turn] for turn in range(rows) for kind in KINDS if turn < len(firsts[kind])]
        return turns[:rows]

    def _first(self, waiting: list[_Entry], rows: int) -> list[Shown]:
        """The first that are still behind the change; what is not is let go."""
        found: list[_Entry] = []
        while waiting and len(found) < rows:
            entry = heapq.heappop(waiting)
            now = self._of.get(entry[2])
            if now is not None and any(entry[3] is shown for shown in now.shown):
                found.append(entry)
        for entry in found:
            heapq.heappush(waiting, entry)
        return [entry[3] for entry in found]


class _Present:
    """The rows of one side that are behind the change at hand, by class."""

    def __init__(self, side: Side, classes: int) -> None:
        self.moving, self.rows = side.moving, 0
        self.counts = [0] * classes
        order = np.lexsort((side.rids, side.classes))
        self._rids, by_class = side.rids[order], side.classes[order]
        self._first = np.searchsorted(by_class, np.arange(classes + 1))
        reached = np.array([], np.int64) if side.moving is None else side.moving.rids
        self._class = side.classes[np.searchsorted(side.rids, reached)].tolist()
        self._there = np.zeros(len(reached), bool)
        self._reached = reached

    def move_to(self, rid: int | None) -> set[int]:
        """Goes to the next change; classes of which rows have come or gone."""
        if self.moving is None:
            return set()
        came, gone = self.moving.move_to(rid)
        touched = set()
        for numbers, weight in ((came, 1), (gone, -1)):
            for number in numbers:
                each = self._class[number]
                self.counts[each] += weight
                touched.add(each)
            self._there[numbers] = weight > 0
        self.rows += len(came) - len(gone)
        return touched

    def of_class(self, each: int) -> list[int]:
        """All rows of a class in the whole version."""
        found: list[int] = self._rids[self._first[each] : self._first[each + 1]].tolist()
        return found

    def present(self, each: int) -> list[int]:
        """Those that are behind the change at hand."""
        rids = self._rids[self._first[each] : self._first[each + 1]]
        if not len(self._reached):
            return []
        numbers = np.minimum(np.searchsorted(self._reached, rids), len(self._reached) - 1)
        found: list[int] = rids[(self._reached[numbers] == rids) & self._there[numbers]].tolist()
        return found
