"""Tracks which rows are present at each of many steps, from the changes at each step. Works on whole arrays.

A row may be reached over several paths. It appears with the first of them and disappears with the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lineage_service.store.version_patcher import Ids

BLOCK = 512
LONG = 64  # ranges longer than this on average are added block by block
NO_IDS: Ids = np.array([], np.int64)


@dataclass(frozen=True)
class Events:
    """Changes of counts: at `steps`, for the rows `numbers`, by `weights`."""

    steps: Ids
    numbers: Ids
    weights: Ids

    @classmethod
    def none(cls) -> Events:
        return cls(NO_IDS, NO_IDS, NO_IDS)

    @classmethod
    def concatenate(cls, parts: Sequence[Events]) -> Events:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.none()
        return cls(
            np.concatenate([part.steps for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    def where(self, chosen: Ids) -> Events:
        """The events at these indexes."""
        return Events(self.steps[chosen], self.numbers[chosen], self.weights[chosen])

    def in_order(self) -> Events:
        """The events sorted by step."""
        return self.where(np.argsort(self.steps, kind="stable"))

    def between(self, first: int, past: int) -> Events:
        """The events of a range of steps. The events must be sorted."""
        low, high = np.searchsorted(self.steps, (first, past))
        return Events(self.steps[low:high], self.numbers[low:high], self.weights[low:high])


@dataclass(frozen=True)
class Ranges:
    """Changes of counts for ranges of rows, from `low` to before `past`."""

    steps: Ids
    low: Ids
    past: Ids
    weights: Ids

    @classmethod
    def of(cls, points: Events) -> Ranges:
        return cls(points.steps, points.numbers, points.numbers + 1, points.weights)

    @classmethod
    def sum_overlaps(cls, parts: Sequence[Ranges]) -> Ranges:
        """Merges ranges so that they do not overlap within a step, and sums their weights. Ranges of weight zero are
        dropped.
        """
        steps = np.concatenate([each for part in parts for each in (part.steps, part.steps)])
        at = np.concatenate([each for part in parts for each in (part.low, part.past)])
        weights = np.concatenate([each for part in parts for each in (part.weights, -part.weights)])
        order = np.lexsort((at, steps))
        steps, at, weights = steps[order], at[order], weights[order]
        first = _firsts(steps, at)
        steps, at = steps[first], at[first]
        # Every range ends in its own step, so the running sum is zero where the next step begins.
        sums = np.cumsum(np.add.reduceat(weights, first)) if len(first) else NO_IDS
        some = np.flatnonzero(sums)
        found = cls(steps[some], at[some], at[some + 1] if len(some) else NO_IDS, sums[some])
        return found._merge_neighbours()

    def _merge_neighbours(self) -> Ranges:
        """Merges adjacent ranges of equal weight."""
        if not len(self.steps):
            return self
        goes_on = (
            (self.steps[1:] == self.steps[:-1])
            & (self.low[1:] == self.past[:-1])
            & (self.weights[1:] == self.weights[:-1])
        )
        first = np.flatnonzero(np.append(True, ~goes_on))
        last = np.append(first[1:], len(self.steps)) - 1
        return Ranges(self.steps[first], self.low[first], self.past[last], self.weights[first])

    def where(self, chosen: Ids) -> Ranges:
        """The ranges at these indexes."""
        return Ranges(self.steps[chosen], self.low[chosen], self.past[chosen], self.weights[chosen])

    @property
    def length(self) -> int:
        return int((self.past - self.low).sum())

    def points(self) -> Events:
        lengths = self.past - self.low
        return Events(
            np.repeat(self.steps, lengths), expand_ranges(self.low, lengths), np.repeat(self.weights, lengths)
        )


def expand_ranges(low: Ids, lengths: Ids) -> Ids:
    """All numbers in the ranges, concatenated."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    found: Ids = np.arange(total) + np.repeat(low - (ends - lengths), lengths)
    return found


def _firsts(*columns: Ids) -> Ids:
    """The indexes where a new value begins in sorted columns."""
    if not len(columns[0]):
        return NO_IDS
    changes = np.zeros(len(columns[0]) - 1, bool)
    for each in columns:
        changes |= each[1:] != each[:-1]
    found: Ids = np.flatnonzero(np.append(True, changes))
    return found


class PathCounts:
    """The number of paths over which each row is reached."""

    def __init__(self, rows: int) -> None:
        self._counts = np.zeros(rows, np.int64)

    def add(self, events: Events) -> Events:
        """The rows that appear (weight 1) and disappear (-1), by step. Steps must ascend from call to call."""
        if not len(events.steps):
            return events
        order = np.lexsort((events.steps, events.numbers))
        steps, numbers, weights = events.steps[order], events.numbers[order], events.weights[order]
        first = _firsts(numbers, steps)
        steps, numbers, weights = steps[first], numbers[first], np.add.reduceat(weights, first)
        begins = _firsts(numbers)
        sums = np.cumsum(weights)
        before_them = np.repeat(sums[begins] - weights[begins], np.diff(np.append(begins, len(numbers))))
        after = sums - before_them + self._read(numbers)
        before = after - weights
        last = np.append(begins[1:], len(numbers)) - 1
        self._write(numbers[last], after[last])
        came, gone = (before == 0) & (after > 0), (before > 0) & (after == 0)
        some = came | gone
        return Events(steps[some], numbers[some], np.where(came[some], 1, -1))

    def _read(self, numbers: Ids) -> Ids:
        found: Ids = self._counts[numbers]
        return found

    def _write(self, numbers: Ids, counts: Ids) -> None:
        self._counts[numbers] = counts


class RangeCounts(PathCounts):
    """Like `PathCounts`, for ranges. Rows are divided into blocks with a known minimum count, so that a long range
    touches only blocks in which a row may appear or disappear.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(rows)  # without the counts added to the whole block
        blocks = -(-rows // BLOCK)
        self._added, self._least = np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)

    def add_ranges(self, ranges: Ranges) -> Events:
        """Like `add`. The ranges of a step must not overlap."""
        if ranges.length <= LONG * len(ranges.steps):
            return self.add(ranges.points())
        found: list[tuple[int, int, Ids]] = []
        columns = (ranges.steps.tolist(), ranges.low.tolist(), ranges.past.tolist(), ranges.weights.tolist())
        for step, low, past, weight in zip(*columns, strict=True):
            found += [(step, weight, numbers) for numbers in self._add_range(low, past, weight) if len(numbers)]
        lengths = [len(numbers) for _, _, numbers in found]
        return Events(
            np.repeat(np.array([step for step, _, _ in found], np.int64), lengths),
            np.concatenate([numbers for _, _, numbers in found]) if found else NO_IDS,
            np.repeat(np.array([1 if weight > 0 else -1 for _, weight, _ in found], np.int64), lengths),
        )

    def _read(self, numbers: Ids) -> Ids:
        found: Ids = self._counts[numbers] + self._added[numbers // BLOCK]
        return found

    def _write(self, numbers: Ids, counts: Ids) -> None:
        blocks = numbers // BLOCK
        self._counts[numbers] = counts - self._added[blocks]
        np.minimum.at(self._least, blocks, counts)

    def _add_range(self, low: int, past: int, weight: int) -> Iterator[Ids]:
        """Adds to a range and returns the rows that appeared or disappeared."""
        first, last = -(-low // BLOCK), past // BLOCK  # complete blocks, from the first to before the last
        if first >= last:
            for block in range(low // BLOCK, -(-past // BLOCK)):
                yield self._add_in_block(block, max(low, block * BLOCK), min(past, (block + 1) * BLOCK), weight)
            return
        if low < first * BLOCK:
            yield self._add_in_block(first - 1, low, first * BLOCK, weight)
        least = self._least[first:last]
        touched = least <= 0 if weight > 0 else least + weight <= 0
        least += weight
        self._added[first:last] += weight
        now = max(weight, 0)  # the count of a row that has just appeared or disappeared
        for block in (np.flatnonzero(touched) + first).tolist():
            counts = self._counts[block * BLOCK : (block + 1) * BLOCK] + self._added[block]
            self._least[block] = counts.min()
            yield np.flatnonzero(counts == now) + block * BLOCK
        if last * BLOCK < past:
            yield self._add_in_block(last, last * BLOCK, past, weight)

    def _add_in_block(self, block: int, low: int, past: int, weight: int) -> Ids:
        """Adds to some rows of a block."""
        added, now = int(self._added[block]), max(weight, 0)
        part = self._counts[low:past]
        part += weight
        least = int(part.min()) + added
        self._least[block] = min(self._least[block], least)
        return np.flatnonzero(part == now - added) + low if least == now else NO_IDS
