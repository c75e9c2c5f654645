"""The rows behind one row after another, as the differences from each row to the next.

For the rows of a window, pairs (row, row behind it) may number rows squared. But the frames of adjacent rows differ in
few positions. So the rows behind a row are given as the difference from the previous row, computed for many rows at
once. The result is exact in any order of the rows; only the run time depends on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from lineage_catalog.hop_forms import HopForm

from lineage_service.query.hop_sql import positions_in, way_ranges
from lineage_service.query.lineage_graph import Place, Way
from lineage_service.query.presence import Events, PathCounts, RangeCounts, Ranges, expand_ranges
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start, way_pairs
from lineage_service.store.version_patcher import Ids

STEPS = 4096  # number of rows processed at once,
MOST = 1 << 22  # reduced if more differences than this would result


@dataclass(frozen=True)
class Moves:
    """The rows that are added (weight 1) and removed (-1) at the steps from `first` to before `past`, in order."""

    first: int
    past: int
    events: Events

    def between(self, first: int, past: int) -> Moves:
        return Moves(first, past, self.events.between(first, past))


@dataclass(frozen=True)
class _Links:
    """What is behind each row of a place over one way: row numbers, or ranges of row numbers."""

    end: Place
    first: Ids  # offset of each row's entries, plus the end offset
    low: Ids
    past: Ids | None  # None: single rows, not ranges

    def fan_out(self, events: Events) -> Ids:
        found: Ids = self.first[events.numbers + 1] - self.first[events.numbers]
        return found

    def behind(self, events: Events) -> Events | Ranges:
        """The changes behind these rows that follow from changes of the rows."""
        lengths = self.fan_out(events)
        entries = expand_ranges(self.first[events.numbers], lengths)
        steps, weights = np.repeat(events.steps, lengths), np.repeat(events.weights, lengths)
        if self.past is None:
            return Events(steps, self.low[entries], weights)
        return Ranges(steps, self.low[entries], self.past[entries], weights)


@dataclass
class _ReachedRows:
    """The reachable rows of a place: their sorted ids, and the links from there."""

    ids: Ids
    has_ranges: bool
    links: list[_Links] = field(default_factory=list)


@dataclass
class _Task:
    """A range of steps, from `first` to before `past`, that is to be propagated.

    Places before the `number`-th are done. `events` are the changes at the `number`-th place, if they are computed
    already. `arriving` holds changes to be added to this and later places.
    """

    number: int
    first: int
    past: int
    arriving: dict[Place, list[Events | Ranges]]
    events: Events | None = None

    def halves(self) -> list[_Task]:
        """The second half of the steps and the first half."""
        middle = (self.first + self.past) // 2
        return [self._part(middle, self.past), self._part(self.first, middle)]

    def _part(self, first: int, past: int) -> _Task:
        def inside(each: Events | Ranges) -> Ids:
            found: Ids = np.flatnonzero((each.steps >= first) & (each.steps < past))
            return found

        arriving = {place: [part.where(inside(part)) for part in parts] for place, parts in self.arriving.items()}
        events = None if self.events is None else self.events.where(inside(self.events))
        return _Task(self.number, first, past, arriving, events)


class MovingRows:
    """The rows of `target` behind one row of `begin` at a time. `ways` lead backward from `begin` to `target`."""

    def __init__(self, questions: Questions, ways: Sequence[Way], start: Start, begin: Place, target: Place) -> None:
        if any(way.hop is not None and way.hop.form is HopForm.LAZY for way in ways):
            ways = questions.lazy(ways, start, begin, "backward")
        self._questions, self._target = questions, target
        self._places: dict[Place, _ReachedRows] = {}
        self._reads: Ids | None = None
        self._load(ways, start, begin)

    @property
    def rids(self) -> Ids:
        """The rows of the target that are behind any of the rows."""
        return self._places[self._target].ids

    def ranks(self, rows: Ids) -> Ids:
        """Sort keys that keep differences small: the positions of rows in a window."""
        begin = next(iter(self._places.values()))
        numbers = np.searchsorted(begin.ids, rows)
        return numbers if self._reads is None else self._reads[numbers]

    def moves(self, rows: Ids) -> Iterator[Moves]:
        """The differences from row to row; -1 stands for the empty set. Events hold row numbers (indexes into
        `rids`).
        """
        begin = next(iter(self._places))
        numbers = np.where(rows < 0, -1, np.searchsorted(self._places[begin].ids, rows))
        before = np.append(-1, numbers[:-1])
        changes = np.flatnonzero(numbers != before)
        counts = {
            place: (RangeCounts if each.has_ranges else PathCounts)(len(each.ids))
            for place, each in self._places.items()
        }
        for first in range(0, len(rows), STEPS):
            past = min(first + STEPS, len(rows))
            steps = changes[slice(*np.searchsorted(changes, (first, past)))]
            came, gone = steps[numbers[steps] >= 0], steps[before[steps] >= 0]
            events = Events.concatenate(
                [
                    Events(came, numbers[came], np.ones(len(came), np.int64)),
                    Events(gone, before[gone], np.full(len(gone), -1)),
                ]
            )
            yield from self._follow_steps(_Task(0, first, past, {}, events), counts)

    def each_move(self, rows: Ids) -> Iterator[tuple[list[int], list[int]]]:
        """For each row, the numbers (indexes into `rids`) of the rows added and removed."""
        for moves in self.moves(rows):
            events = moves.events
            ends = np.searchsorted(events.steps, np.arange(moves.first, moves.past + 1)).tolist()
            numbers, weights = events.numbers, events.weights > 0
            for low, past in pairwise(ends):
                here, came = numbers[low:past], weights[low:past]
                yield here[came].tolist(), here[~came].tolist()

    def _follow_steps(self, task: _Task, counts: dict[Place, PathCounts]) -> Iterator[Moves]:
        places = list(self._places.items())
        tasks = [task]
        while tasks:  # the first half is always on top of the stack
            task = tasks.pop()
            place, rows = places[task.number]
            can_split = task.past - task.first > 1
            if task.events is None:
                arriving = task.arriving.pop(place, [])
                ranges = _sum_ranges(arriving) if rows.has_ranges and arriving else None
                if ranges is not None and ranges.length > MOST and can_split:
                    task.arriving[place] = [ranges]
                    tasks += task.halves()
                    continue
                task.events = _apply_changes(counts[place], arriving, ranges)
            if place == self._target:
                yield Moves(task.first, task.past, task.events.in_order())
                continue
            if sum(int(link.fan_out(task.events).sum()) for link in rows.links) > MOST and can_split:
                tasks += task.halves()
                continue
            for link in rows.links:
                task.arriving.setdefault(link.end, []).append(link.behind(task.events))
            tasks.append(_Task(task.number + 1, task.first, task.past, task.arriving))

    # --- loading ----------------------------------------------------------------------------------------------

    def _load(self, ways: Sequence[Way], start: Start, begin: Place) -> None:
        questions, engine = self._questions, self._questions.engine
        files, tables = questions.files, list[str]()

        def keep(query: str, parameters: Sequence[object] = ()) -> str:
            tables.append(engine.keep(query, parameters))
            return tables[-1]

        try:
            everything = start.rids is None and start.table is None
            relation, parameters = start.relation(files.rids(begin) if everything else "")
            ids = {begin: keep(f"SELECT DISTINCT b FROM ({relation})", parameters)}
            incoming: dict[Place, list[str]] = {}
            kept: list[tuple[Way, str, bool]] = []
            for way in ways:
                if way.start not in ids:
                    ids[way.start] = keep(f"SELECT DISTINCT b FROM ({' UNION ALL '.join(incoming[way.start])})")
                is_interval = way.hop is not None and way.hop.form is HopForm.INTERVAL
                if way.hop is not None and is_interval:
                    table = keep(way_ranges(way.hop, ids[way.start], files))
                    incoming.setdefault(way.end, []).append(positions_in(table))
                else:
                    pairs = way_pairs(way, ids[way.start], "backward", files)
                    table = keep(f"SELECT DISTINCT a, b FROM ({pairs})")
                    incoming.setdefault(way.end, []).append(f"SELECT b FROM {table}")
                kept.append((way, table, is_interval))
            ids[self._target] = keep(f"SELECT DISTINCT b FROM ({' UNION ALL '.join(incoming[self._target])})")
            for place, table in ids.items():
                (found,) = self._questions.engine.arrays(f"SELECT b FROM {table} ORDER BY b", 1)
                has_ranges = any(is_interval and way.end == place for way, _, is_interval in kept)
                self._places[place] = _ReachedRows(found, has_ranges)
            for way, table, is_interval in kept:
                self._link(way, table, is_interval=is_interval)
        finally:
            for table in tables:
                engine.drop(table)

    def _link(self, way: Way, table: str, *, is_interval: bool) -> None:
        near, far = self._places[way.start], self._places[way.end]
        if is_interval:
            a, low, high = self._questions.engine.arrays(f"SELECT a, lo, hi FROM {table} ORDER BY a, lo", 3)
            low, past = np.searchsorted(far.ids, low), np.searchsorted(far.ids, high, side="right")
        else:
            a, low = self._questions.engine.arrays(f"SELECT a, b FROM {table} ORDER BY a, b", 2)
            low, past = np.searchsorted(far.ids, low), None
        first = np.searchsorted(a, np.append(near.ids, np.iinfo(np.int64).max))
        if self._reads is None and is_interval:
            self._reads = self._places_in(way.start)
        near.links.append(_Links(way.end, first, low, past))

    def _places_in(self, window: Place) -> Ids:
        """The position of each start row in a window. Differences between neighbours are small."""
        begin, rows = next(iter(self._places.items()))
        behind = len(self._places[window].ids)
        found = np.arange(behind) if window == begin else np.full(len(rows.ids), behind)
        for link in rows.links:
            if link.end == window and link.past is None:
                some = link.first[:-1] < link.first[1:]
                found[some] = link.low[link.first[:-1][some]]
        return found


def _sum_ranges(parts: Sequence[Events | Ranges]) -> Ranges:
    return Ranges.sum_overlaps([Ranges.of(part) if isinstance(part, Events) else part for part in parts])


def _apply_changes(counts: PathCounts, parts: Sequence[Events | Ranges], ranges: Ranges | None) -> Events:
    if ranges is not None and isinstance(counts, RangeCounts):
        return counts.add_ranges(ranges)
    return counts.add(Events.concatenate([part for part in parts if isinstance(part, Events)]))


def align_moves(streams: Sequence[Iterator[Moves]]) -> Iterator[list[Moves]]:
    """Splits several streams of moves over the same steps at common boundaries."""
    heads = [next(stream, None) for stream in streams]
    while heads and all(head is not None for head in heads):
        known = [head for head in heads if head is not None]
        first, past = known[0].first, min(head.past for head in known)
        yield [head.between(first, past) for head in known]
        heads = [
            next(stream, None) if head.past == past else head.between(past, head.past)
            for head, stream in zip(known, streams, strict=True)
        ]
