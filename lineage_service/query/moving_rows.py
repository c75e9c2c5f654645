"""The rows behind one row after another, as what comes and goes from each to the next.

The rows behind all rows of a window, as pairs, may be as many as rows squared. But frames of neighbouring rows differ
in few positions. So a set is kept of what is behind one row; moving on to the next row changes just what differs.
What is behind a row is told exactly whatever the order of the rows: only the time that a move takes depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_service.query.ask import Questions
from lineage_service.query.graph import Place, Way
from lineage_service.query.hop_sql import positions_in, way_ranges
from lineage_service.query.walk_sql import Start, way_pairs
from lineage_service.store.patching import Ids

BLOCK = 512
Range = tuple[int, int, int]  # from, to before, and by how much the count of each place in it changes


@dataclass(frozen=True)
class _Links:
    """What is behind each row of a place over one way, by numbers of rows: others, or ranges of them."""

    end: Place
    first: Ids  # where the entries of a row begin; one more at the end
    low: Ids
    past: Ids | None  # None: no ranges


@dataclass
class _Rows:
    """The rows of a place that can be reached: their ids in order, and over how many ways each is reached now."""

    ids: Ids
    counts: _Counts
    links: list[_Links] = field(default_factory=list)


class MovingRows:
    """The rows of `target` behind one row of `begin` at a time. `ways` lead back from the one to the other."""

    def __init__(self, questions: Questions, ways: Sequence[Way], start: Start, begin: Place, target: Place) -> None:
        if any(way.hop is not None and way.hop.form == "lazy" for way in ways):
            ways = questions.lazy(ways, start, begin, "backward")
        self._questions, self._target = questions, target
        self._here: int | None = None
        self._places: dict[Place, _Rows] = {}
        self._reads: Ids | None = None
        self._load(ways, start, begin)

    @property
    def rids(self) -> Ids:
        """The rows of the target that are behind any of the rows."""
        return self._places[self._target].ids

    def ranks(self, rows: Ids) -> Ids:
        """By which to sort rows so that moves are short: the places that they have in a window."""
        begin = next(iter(self._places.values()))
        numbers = np.searchsorted(begin.ids, rows)
        return numbers if self._reads is None else self._reads[numbers]

    def move_to(self, row: int | None) -> tuple[list[int], list[int]]:
        """Goes to another row, or away from all. The numbers (in `rids`) of rows that came, and of those that went."""
        begin = next(iter(self._places))
        number = None if row is None else int(np.searchsorted(self._places[begin].ids, row))
        if number == self._here:
            return [], []
        came, gone = ([] if each is None else [each] for each in (number, self._here))
        self._here = number
        points: dict[Place, dict[int, int]] = {}
        ranges: dict[Place, list[Range]] = {}
        for place, rows in self._places.items():
            if place != begin:
                came, gone = rows.counts.add(points.get(place, {}), ranges.get(place, ()))
            if not came and not gone:
                continue
            if place == self._target:
                return came, gone
            for link in rows.links:
                for numbers, weight in ((came, 1), (gone, -1)):
                    for each in numbers:
                        first, past = int(link.first[each]), int(link.first[each + 1])
                        if link.past is None:
                            found = points.setdefault(link.end, {})
                            for other in link.low[first:past].tolist():
                                found[other] = found.get(other, 0) + weight
                        elif first < past:
                            ranges.setdefault(link.end, []).extend(
                                (low, end, weight)
                                for low, end in zip(
                                    link.low[first:past].tolist(), link.past[first:past].tolist(), strict=True
                                )
                            )
        return [], []

    # --- what is read once ------------------------------------------------------------------------------------

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
                is_interval = way.hop is not None and way.hop.form == "interval"
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
                (found,) = self._arrays(f"SELECT b FROM {table} ORDER BY b", 1)
                has_ranges = any(is_interval and way.end == place for way, _, is_interval in kept)
                self._places[place] = _Rows(found, _Counts(len(found), has_ranges=has_ranges))
            for way, table, is_interval in kept:
                self._link(way, table, is_interval=is_interval)
        finally:
            for table in tables:
                engine.drop(table)

    def _link(self, way: Way, table: str, *, is_interval: bool) -> None:
        near, far = self._places[way.start], self._places[way.end]
        if is_interval:
            a, low, high = self._arrays(f"SELECT a, lo, hi FROM {table} ORDER BY a, lo", 3)
            low, past = np.searchsorted(far.ids, low), np.searchsorted(far.ids, high, side="right")
        else:
            a, low = self._arrays(f"SELECT a, b FROM {table} ORDER BY a, b", 2)
            low, past = np.searchsorted(far.ids, low), None
        first = np.searchsorted(a, np.append(near.ids, np.iinfo(np.int64).max))
        if self._reads is None and is_interval:
            self._reads = self._places_in(way.start)
        near.links.append(_Links(way.end, first, low, past))

    def _places_in(self, window: Place) -> Ids:
        """Per row of the start its place in a window; from one to the next moves are short."""
        begin, rows = next(iter(self._places.items()))
        behind = len(self._places[window].ids)
        found = np.arange(behind) if window == begin else np.full(len(rows.ids), behind)
        for link in rows.links:
            if link.end == window and link.past is None:
                some = link.first[:-1] < link.first[1:]
                found[some] = link.low[link.first[:-1][some]]
        return found

    def _arrays(self, query: str, columns: int) -> list[Ids]:
        table = self._questions.engine.stream(query).read_all()
        return [
            np.asarray(table.column(index).to_numpy(zero_copy_only=False), np.int64) if table.num_rows else _NONE
            for index in range(columns)
        ]


_NONE: Ids = np.array([], np.int64)


class _Counts:
    """Over how many ways each of some rows is reached. In blocks, of each of which it is known what its counts are at
    least: a long range that is added touches just the blocks in which a row may come or go."""

    def __init__(self, rows: int, *, has_ranges: bool) -> None:
        blocks = -(-rows // BLOCK) if has_ranges else 0
        self._plain = None if has_ranges else [0] * rows
        self._cells = np.zeros(rows if has_ranges else 0, np.int64)  # without what was added to the whole block
        self._added, self._least = np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)

    def add(self, points: dict[int, int], ranges: Iterable[Range]) -> tuple[list[int], list[int]]:
        """The rows that were not reached and are now, and the other way round."""
        came: list[int] = []
        gone: list[int] = []
        if self._plain is not None:
            for number, weight in points.items():
                before = self._plain[number]
                self._plain[number] = before + weight
                if weight and before == 0:
                    came.append(number)
                elif weight and before + weight == 0:
                    gone.append(number)
            return came, gone
        for low, past, weight in _summed([*ranges, *((each, each + 1, points[each]) for each in points)]):
            self._add_range(low, past, weight, came if weight > 0 else gone)
        return came, gone

    def _add_range(self, low: int, past: int, weight: int, found: list[int]) -> None:
        first, last = -(-low // BLOCK), past // BLOCK  # whole blocks, from the first to before the last
        if first >= last:
            for block in range(low // BLOCK, -(-past // BLOCK)):
                self._add_inside(block, max(low, block * BLOCK), min(past, (block + 1) * BLOCK), weight, found)
            return
        if low < first * BLOCK:
            self._add_inside(first - 1, low, first * BLOCK, weight, found)
        least = self._least[first:last]
        touched = least <= 0 if weight > 0 else least + weight <= 0
        least += weight
        self._added[first:last] += weight
        now = max(weight, 0)  # what a row counts that has just come, or gone
        for block in (np.flatnonzero(touched) + first).tolist():
            counts = self._cells[block * BLOCK : (block + 1) * BLOCK] + self._added[block]
            self._least[block] = counts.min()
            found += (np.flatnonzero(counts == now) + block * BLOCK).tolist()
        if last * BLOCK < past:
            self._add_inside(last, last * BLOCK, past, weight, found)

    def _add_inside(self, block: int, low: int, past: int, weight: int, found: list[int]) -> None:
        """Adds to some rows of a block."""
        added, now = int(self._added[block]), max(weight, 0)
        if past - low == 1:
            new = int(self._cells[low]) + weight
            self._cells[low] = new
            least = new + added
            if least == now:
                found.append(low)
        else:
            part = self._cells[low:past]
            part += weight
            least = int(part.min()) + added
            if least == now:
                found += (np.flatnonzero(part == now - added) + low).tolist()
        self._least[block] = min(self._least[block], least)


def _summed(ranges: Iterable[Range]) -> list[Range]:
    """Ranges that do not overlap, with the sum of what is added there; none where that is nothing."""
    changes: dict[int, int] = {}
    for low, past, weight in ranges:
        changes[low] = changes.get(low, 0) + weight
        changes[past] = changes.get(past, 0) - weight
    found: list[Range] = []
    weight = begun = 0
    for at in sorted(changes):
        if changes[at]:
            if weight:
                found.append((begun, at, weight))
            weight, begun = weight + changes[at], at
    return found
