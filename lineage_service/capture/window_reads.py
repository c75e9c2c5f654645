"""The rows of its partition from which a window's row is computed, as intervals of positions in the partition's order.

One interval per distinct frame over all measures. The row itself counts as *own*, whether an interval contains it or
not. Bounds are symbolic here; Spark computes them beside the measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lineage_service.plan.nodes import Window
from lineage_service.plan.window_calls import WindowCall, window_calls
from lineage_service.plan.window_frames import FrameBound, WindowFrame

Kind = Literal["start", "before_peers", "first_peer", "row", "last_peer", "end", "first_read", "last_read"]


@dataclass(frozen=True, slots=True)
class Point:
    """A position in the partition's order, relative to a row.

    row: this many rows after the row (`offset`; negative: before it), or `text`, a constant that Spark computes
    before_peers, first_peer, last_peer: relative to the rows that are equal in the order
    first_read, last_read: the first and last row of the frame `text`, or of the rows that `call` examines because it
    ignores nulls
    """

    kind: Kind
    offset: int = 0
    text: str | None = None
    call: WindowCall | None = None

    def is_at_most(self, other: Point) -> bool:
        """Whether it is at or before the other point for every row."""
        if self == other or self.kind == "start" or other.kind == "end":
            return True
        if any(each.text is not None or each.call is not None for each in (self, other)):
            return False
        ranks = {"before_peers": 0, "first_peer": 1, "last_peer": 3}
        if self.kind in ranks and other.kind in ranks:
            return ranks[self.kind] <= ranks[other.kind]
        if self.kind == "row" and other.kind == "row":
            return self.offset <= other.offset
        if other.kind == "row":
            return other.offset >= {"before_peers": -1, "first_peer": 0}.get(self.kind, other.offset + 1)
        return self.kind == "row" and other.kind == "last_peer" and self.offset <= 0


@dataclass(frozen=True, slots=True)
class Interval:
    """Positions from `lo` to `hi`, both included; empty if `hi` is before `lo`."""

    lo: Point
    hi: Point

    def contains(self, other: Interval) -> bool:
        return self.lo.is_at_most(other.lo) and other.hi.is_at_most(self.hi)

    @property
    def has_row(self) -> bool:
        """Whether the interval contains the row itself, for every row."""
        return self.lo.is_at_most(_HERE) and _HERE.is_at_most(self.hi)

    def union(self, other: Interval) -> Interval | None:
        """The union, if both contain the row and the order of their bounds is known; otherwise None."""
        if self.contains(other):
            return self
        if not (self.has_row and other.has_row):
            return None
        lo = _first(self.lo, other.lo)
        hi = _last(self.hi, other.hi)
        return None if lo is None or hi is None else Interval(lo, hi)


_START, _HERE, _END = Point("start"), Point("row"), Point("end")


def _first(one: Point, other: Point) -> Point | None:
    return one if one.is_at_most(other) else other if other.is_at_most(one) else None


def _last(one: Point, other: Point) -> Point | None:
    return other if one.is_at_most(other) else one if other.is_at_most(one) else None


def window_reads(node: Window) -> tuple[Interval, ...]:
    """The intervals of each row's partition that the measures of a window read; empty if each reads its own row
    only.
    """
    calls = [call for named in node.measures for call in window_calls(named.expression)]
    found: list[Interval] = []
    for each in dict.fromkeys(interval for call in calls for interval in _call_intervals(call, node)):
        found = _add_interval(found, _including_row(each))
    return tuple(each for each in found if each != Interval(_HERE, _HERE))


def _including_row(each: Interval) -> Interval:
    """Extends an interval that ends right before the row, or begins right after it, to the row."""
    lo = _HERE if each.lo == Point("row", 1) else each.lo
    hi = _HERE if each.hi == Point("row", -1) else each.hi
    return Interval(lo, hi)


def _add_interval(intervals: list[Interval], new: Interval) -> list[Interval]:
    for place, each in enumerate(intervals):
        joined = each.union(new) or new.union(each)
        if joined is not None:
            return _add_interval([*intervals[:place], *intervals[place + 1 :]], joined)
    return [*intervals, new]


def _call_intervals(call: WindowCall, node: Window) -> Iterator[Interval]:
    """The intervals that one function reads, after section 4 of the contract."""
    match call.name:
        case "row_number":
            yield Interval(_START, Point("row", -1))
        case "rank" | "dense_rank":
            yield Interval(_START, Point("before_peers"))
        case "ntile" | "percent_rank" | "cume_dist":
            yield Interval(_START, _END)
        case "lag" | "lead":
            yield from _offset_intervals(call)
        case "counter_diff":  # the last value before that is not null
            yield from _offset_intervals(WindowCall("lag", call.arguments[:1], ignores_nulls=True))
        case _:
            yield _frame_interval(node.frame, ordered=bool(node.order_by))


def _offset_intervals(call: WindowCall) -> Iterator[Interval]:
    offset = call.arguments[1] if len(call.arguments) > 1 else "1"
    sign = "-" if call.name == "lag" else ""
    if call.ignores_nulls:
        plain = WindowCall(call.name, (call.arguments[0], offset), ignores_nulls=True)
        yield Interval(Point("first_read", call=plain), Point("last_read", call=plain))
        return
    number = _whole_number(offset)
    point = Point("row", text=f"{sign}({offset})") if number is None else Point("row", -number if sign else number)
    yield Interval(point, point)


def _whole_number(text: str) -> int | None:
    bare = text.replace(" ", "")
    return int(bare) if bare.removeprefix("-").isdecimal() else None


def _frame_interval(frame: WindowFrame | None, *, ordered: bool) -> Interval:
    if frame is None:
        return Interval(_START, Point("last_peer") if ordered else _END)
    if not frame.rows and frame.has_offset:
        return Interval(Point("first_read", text=frame.text), Point("last_read", text=frame.text))
    here = (_HERE, _HERE) if frame.rows else (Point("first_peer"), Point("last_peer"))
    return Interval(_frame_point(frame.lower, here[0]), _frame_point(frame.upper, here[1]))


def _frame_point(bound: FrameBound, here: Point) -> Point:
    match bound.kind:
        case "start":
            return _START
        case "end":
            return _END
        case "here":
            return here
        case _:
            if bound.number is not None:
                return Point("row", bound.number)
            return Point("row", text=f"{'-' if bound.kind == 'before' else ''}({bound.offset})")
