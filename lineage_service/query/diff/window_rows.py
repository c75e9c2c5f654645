"""Counts the source rows behind the changes of a diff when a window is on the path.

Moves from one change to the next and updates the set of rows behind it. The answer equals that of enumerating pairs
(change, row), of which there may be rows squared.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import numpy as np

from lineage_service.query.moving_rows import MovingRows
from lineage_service.store.version_patcher import Ids

Change = tuple[int, int | None, int | None]  # number of the change, its row before, its row after
Elsewhere = Literal["looked up", "there", "unknown"]
KINDS = ("changed", "added", "removed")  # order in which the kinds are shown in turn


@dataclass(frozen=True)
class SourceVersionRows:
    """One run's rows of a source. `classes` gives the identity of each row as a number; `rids` are those of the whole
    version.
    """

    moving: MovingRows | None  # None: no row is behind any change
    rids: Ids
    classes: Ids


@dataclass(frozen=True)
class ShownRow:
    """A shown row behind a change. `known` is None if the other version cannot be consulted."""

    kind: str
    known: bool | None
    before: int | None
    after: int | None

    @property
    def order(self) -> tuple[int, int]:
        rid = self.before if self.after is None else self.after
        return 0 if self.known is None else 1 + self.known, -1 if rid is None else rid


_Entry = tuple[tuple[int, int], int, int, ShownRow]  # sort key, time of arrival, class

ADDED, NEW, REMOVED, GONE, CHANGED, SAME = range(6)


@dataclass
class ChangeTally:
    """The rows behind a change: their numbers (added, new, removed, gone, changed, same), and a sample to show."""

    counts: list[int] = field(default_factory=lambda: [0] * 6)
    shown: list[ShownRow] = field(default_factory=list)


class MovingDifference:
    """The difference between what is behind the two sides of a change, updated from change to change.

    changed: classes with one row in each version, where the rows differ
    elsewhere: how to tell whether the other version has a row that is behind one side only: looked up by its class,
    always present, or unknown
    named: whether the matching row of the other version is reported
    """

    def __init__(
        self,
        sides: tuple[SourceVersionRows, SourceVersionRows],
        classes: int,
        changed: Ids,
        elsewhere: Elsewhere,
        *,
        named: bool,
    ) -> None:
        self._sides = _PresentRows(sides[0], classes), _PresentRows(sides[1], classes)
        self._changed = np.zeros(classes, bool)
        self._changed[changed] = True
        self._elsewhere, self._named = elsewhere, named
        self._total = [0] * 6
        self._of: dict[int, ChangeTally] = {}  # counts of the classes behind the current change
        self._waiting: dict[str, list[_Entry]] = {kind: [] for kind in KINDS}
        self._entries = count()
        self._rows = 0  # number of rows shown per kind

    def count_changes(self, changes: Sequence[Change], rows: int) -> Iterator[tuple[int, ChangeTally, tuple[int, int]]]:
        """For each change, the rows behind it, at most `rows` to show, and the number of rows behind each side. The
        order is chosen to keep the updates small.
        """
        ordered = self._in_order(changes)
        before, after = (side.moved_classes(_rids_of(ordered, place)) for place, side in enumerate(self._sides, 1))
        self._rows = rows
        for (n, _, _), old, new in zip(ordered, before, after, strict=True):
            for each in old | new:
                self._count(each)
            yield n, ChangeTally([*self._total], self._rows_to_show(rows)), (self._sides[0].rows, self._sides[1].rows)

    def _in_order(self, changes: Sequence[Change]) -> list[Change]:
        for place in (2, 1):
            moving = self._sides[place - 1].moving
            if moving is not None:
                there = _rids_of(changes, place)
                ranks = np.full(len(there), -1)
                ranks[there >= 0] = moving.ranks(there[there >= 0])
                return [changes[index] for index in np.argsort(ranks, kind="stable").tolist()]
        return list(changes)

    def _count(self, each: int) -> None:
        """Recounts one class."""
        old = self._of.pop(each, None)
        if old is not None:
            for place, number in enumerate(old.counts):
                self._total[place] -= number
        before, after = self._sides[0].counts[each], self._sides[1].counts[each]
        if not before and not after:
            return
        both, new = min(before, after), ChangeTally()
        if both and self._changed[each]:
            new.counts[CHANGED] = both
            old_rid, new_rid = (side.present(each, 0, 1)[0] for side in self._sides)
            new.shown.append(ShownRow("changed", True, old_rid, new_rid))
        else:
            new.counts[SAME] = both
        new.counts[ADDED], new.counts[REMOVED] = after - both, before - both
        if before != after:
            self._one_sided(each, both, new)
        self._of[each] = new
        for place, number in enumerate(new.counts):
            self._total[place] += number
        for shown in new.shown:
            heapq.heappush(self._waiting[shown.kind], (shown.order, next(self._entries), each, shown))

    def _one_sided(self, each: int, both: int, tally: ChangeTally) -> None:
        """The copies of a class that are behind one side only, which are the last ones by rid. Of many equal rows, only
        those that may be shown are examined, new and gone rows first.
        """
        is_added = self._sides[1].counts[each] > both
        mine, theirs = self._sides[int(is_added)], self._sides[int(not is_added)]
        copies = mine.counts[each]
        there = theirs.copies(each)
        # The other version has no copies from this one on.
        past = {"looked up": min(max(there, both), copies), "there": copies, "unknown": copies}[self._elsewhere]
        known = None if self._elsewhere == "unknown" else True
        tally.counts[NEW if is_added else GONE] = copies - past
        other = theirs.first(each) if self._named and known and past > both else None
        for first, end, state in ((past, copies, False), (both, past, known)):
            wanted = self._rows - sum(shown.kind != "changed" for shown in tally.shown)
            for rid in mine.present(each, first, min(end, first + wanted)):
                beside = other if state else None
                shown = ShownRow("added", state, beside, rid) if is_added else ShownRow("removed", state, rid, beside)
                tally.shown.append(shown)

    def _rows_to_show(self, rows: int) -> list[ShownRow]:
        """A sample of rows, one of each kind in turn."""
        firsts = {kind: self._first(self._waiting[kind], rows) for kind in KINDS}
        turns = [firsts[kind][turn] for turn in range(rows) for kind in KINDS if turn < len(firsts[kind])]
        return turns[:rows]

    def _first(self, waiting: list[_Entry], rows: int) -> list[ShownRow]:
        """The first rows that are still behind the change. Removes the others from the queue."""
        found: list[_Entry] = []
        while waiting and len(found) < rows:
            entry = heapq.heappop(waiting)
            now = self._of.get(entry[2])
            if now is not None and any(entry[3] is shown for shown in now.shown):
                found.append(entry)
        for entry in found:
            heapq.heappush(waiting, entry)
        return [entry[3] for entry in found]


def _rids_of(changes: Sequence[Change], place: int) -> Ids:
    """The rows of one side; -1 for a change without a row there."""
    return np.array([-1 if each[place] is None else each[place] for each in changes], np.int64)


class _PresentRows:
    """The rows of one side that are behind the current change, by class."""

    def __init__(self, side: SourceVersionRows, classes: int) -> None:
        self.moving, self.rows = side.moving, 0
        self.counts = [0] * classes
        reached = np.array([], np.int64) if side.moving is None else side.moving.rids
        places = np.searchsorted(side.rids, reached)
        self._copies = np.bincount(side.classes, minlength=classes)
        self._any = np.zeros(classes, np.int64)
        self._any[side.classes[::-1]] = side.rids[::-1]  # first row of each class
        # Rows that may be behind some change, ordered by rid within each class.
        self._class = side.classes[places]
        order = np.lexsort((reached, self._class))
        self._rids = reached[order]
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._first = np.searchsorted(self._class[order], np.arange(classes + 1))
        self._there = FenwickTree(len(order))

    def moved_classes(self, rids: Ids) -> Iterator[set[int]]:
        """Moves to the given rids in turn (-1: no row). Returns the classes whose rows were added or removed."""
        if self.moving is None:
            yield from (set[int]() for _ in rids)
            return
        for came, gone in self.moving.each_move(rids):
            found = set[int]()
            for numbers, weight in ((came, 1), (gone, -1)):
                for each in self._class[numbers].tolist() if numbers else ():
                    self.counts[each] += weight
                    found.add(each)
                for place in self._place[numbers].tolist() if numbers else ():
                    self._there.add(place, weight)
            self.rows += len(came) - len(gone)
            yield found

    def copies(self, each: int) -> int:
        """The number of rows of a class in the whole version."""
        return int(self._copies[each])

    def first(self, each: int) -> int:
        """The first row of a class."""
        return int(self._any[each])

    def present(self, each: int, first: int, past: int) -> list[int]:
        """Rows of a class that are behind the current change, by position in rid order, within a range."""
        before = self._there.before(int(self._first[each])) if first < past else 0
        return [int(self._rids[self._there.place_of(before + number)]) for number in range(first, past)]


class FenwickTree:
    """A Fenwick tree over positions that are marked or unmarked. It finds the n-th marked position in logarithmic
    time.
    """

    def __init__(self, places: int) -> None:
        self._sums = [0] * (places + 1)
        self._top = 1 << places.bit_length() >> 1

    def add(self, place: int, weight: int) -> None:
        """Marks a position (1) or unmarks it (-1)."""
        sums, index = self._sums, place + 1
        while index < len(sums):
            sums[index] += weight
            index += index & -index

    def before(self, place: int) -> int:
        """The number of marked positions before this one."""
        found = 0
        while place:
            found += self._sums[place]
            place -= place & -place
        return found

    def place_of(self, number: int) -> int:
        """The marked position that has `number` marked positions before it."""
        sums, place, step = self._sums, 0, self._top
        while step:
            if place + step < len(sums) and sums[place + step] <= number:
                place += step
                number -= sums[place]
            step >>= 1
        return place
