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
from lineage_service.store.version_patcher import Ids

Change = tuple[int, int | None, int | None]  # its number, and its rows before and after
Elsewhere = Literal["looked up", "there", "unknown"]
KINDS = ("changed", "added", "removed")  # in the order in which they are shown by turns


@dataclass(frozen=True)
class SourceVersionRows:
    """One run's rows of a source. `classes`: what each row is known again by, a number; `rids` of the whole version."""

    moving: MovingRows | None  # None: no row of it is behind any change
    rids: Ids
    classes: Ids


@dataclass(frozen=True)
class ShownRow:
    """A row behind a change that is shown; None of `known`: nothing is known of the other version."""

    kind: str
    known: bool | None
    before: int | None
    after: int | None

    @property
    def order(self) -> tuple[int, int]:
        rid = self.before if self.after is None else self.after
        return 0 if self.known is None else 1 + self.known, -1 if rid is None else rid


_Entry = tuple[tuple[int, int], int, int, ShownRow]  # what it is sorted by, when it came, its class

ADDED, NEW, REMOVED, GONE, CHANGED, SAME = range(6)


@dataclass
class ChangeTally:
    """Rows behind a change: how many (added, new of those, removed, gone of those, changed, same), and some to show."""

    counts: list[int] = field(default_factory=lambda: [0] * 6)
    shown: list[ShownRow] = field(default_factory=list)


class MovingDifference:
    """What is behind both sides of one change after another.

    changed: classes whose rows, one in each version, differ
    elsewhere: of a row behind one side only, whether the other version has it: looked up, by its class; `there` in any
    case; or nobody can tell · named: the row that it has there is told
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
        self._of: dict[int, ChangeTally] = {}  # of classes that are behind the change at hand
        self._waiting: dict[str, list[_Entry]] = {kind: [] for kind in KINDS}
        self._entries = count()
        self._rows = 0  # that are shown of each kind at most

    def count_changes(self, changes: Sequence[Change], rows: int) -> Iterator[tuple[int, ChangeTally, tuple[int, int]]]:
        """Per change what is behind it, `rows` of it to show, and how many rows are behind either side; in an order in
        which that is quick."""
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
        """Counts one class anew."""
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
        """The copies of a class that are behind one side only: the last ones by rid. Of many equal rows only those are
        looked at that may be shown, what came or went for good first."""
        is_added = self._sides[1].counts[each] > both
        mine, theirs = self._sides[int(is_added)], self._sides[int(not is_added)]
        copies = mine.counts[each]
        there = theirs.copies(each)
        # From this copy on the other version has none.
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
        """Some rows by turns, one of each kind."""
        firsts = {kind: self._first(self._waiting[kind], rows) for kind in KINDS}
        turns = [firsts[kind][turn] for turn in range(rows) for kind in KINDS if turn < len(firsts[kind])]
        return turns[:rows]

    def _first(self, waiting: list[_Entry], rows: int) -> list[ShownRow]:
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


def _rids_of(changes: Sequence[Change], place: int) -> Ids:
    """The rows of one side, -1 where a change has none."""
    return np.array([-1 if each[place] is None else each[place] for each in changes], np.int64)


class _PresentRows:
    """The rows of one side that are behind the change at hand, by class."""

    def __init__(self, side: SourceVersionRows, classes: int) -> None:
        self.moving, self.rows = side.moving, 0
        self.counts = [0] * classes
        reached = np.array([], np.int64) if side.moving is None else side.moving.rids
        places = np.searchsorted(side.rids, reached)
        self._copies = np.bincount(side.classes, minlength=classes)
        self._any = np.zeros(classes, np.int64)
        self._any[side.classes[::-1]] = side.rids[::-1]  # the first of each class
        # Those that may be behind a change, each class for itself in the order of rids.
        self._class = side.classes[places]
        order = np.lexsort((reached, self._class))
        self._rids = reached[order]
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._first = np.searchsorted(self._class[order], np.arange(classes + 1))
        self._there = FenwickTree(len(order))

    def moved_classes(self, rids: Ids) -> Iterator[set[int]]:
        """Goes from change to change, -1 where a change has no row; classes of which rows have come or gone."""
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
        """How many rows of a class the whole version has."""
        return int(self._copies[each])

    def first(self, each: int) -> int:
        """The first of them."""
        return int(self._any[each])

    def present(self, each: int, first: int, past: int) -> list[int]:
        """Some of those that are behind the change at hand, by their numbers in the order of rids."""
        before = self._there.before(int(self._first[each])) if first < past else 0
        return [int(self._rids[self._there.place_of(before + number)]) for number in range(first, past)]


class FenwickTree:
    """Places that are marked or not, of which the n-th marked one is found without a look at all (a Fenwick tree)."""

    def __init__(self, places: int) -> None:
        self._sums = [0] * (places + 1)
        self._top = 1 << places.bit_length() >> 1

    def add(self, place: int, weight: int) -> None:
        """Marks a place (1), or no longer (-1)."""
        sums, index = self._sums, place + 1
        while index < len(sums):
            sums[index] += weight
            index += index & -index

    def before(self, place: int) -> int:
        """How many places before this one are marked."""
        found = 0
        while place:
            found += self._sums[place]
            place -= place & -place
        return found

    def place_of(self, number: int) -> int:
        """The place of the marked one before which `number` are marked."""
        sums, place, step = self._sums, 0, self._top
        while step:
            if place + step < len(sums) and sums[place + step] <= number:
                place += step
                number -= sums[place]
            step >>= 1
        return place
