"""Windows of the oracle: frames, the functions that know an order, and which rows a measure reads.

A partition is a list of rows in their order; a row is its position in that list. Rows that are equal in the order are
ties. Written from section 4 of the contract alone; what Spark refuses raises `Unsupported`.
"""

import datetime
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import sqlglot
from sqlglot import exp

from tests.oracle.reference_expressions import AGGREGATES, Context, Scope, parsed, value_of
from tests.oracle.reference_values import Ordering, Unsupported, compare_in_order, is_number

# --- frames -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """One end of a frame: so far before (-1) or behind (1) the current row, or at it (0)."""

    direction: int
    distance: object = 0  # None: unbounded; a number; or a Span

    @property
    def offset(self):
        """The distance with its sign."""
        return (
            self.distance.times(self.direction) if isinstance(self.distance, Span) else self.direction * self.distance
        )


@dataclass(frozen=True)
class Span:
    """An interval: months and a duration, of which Spark's literals have only one."""

    months: int = 0
    duration: datetime.timedelta = datetime.timedelta()

    def times(self, factor: int) -> "Span":
        return Span(factor * self.months, factor * self.duration)


@dataclass(frozen=True)
class Frame:
    """The rows that an aggregate reads for a row, as a rule."""

    unit: str  # ROWS or RANGE
    start: Bound
    end: Bound

    @property
    def is_whole(self) -> bool:
        return self.start.distance is None and self.end.distance is None

    @property
    def has_offset(self) -> bool:
        return any(bound.direction and bound.distance is not None for bound in (self.start, self.end))

    def rows_of(self, partition: "Partition", position: int) -> list[int]:
        """The rows of the frame of a row; perhaps none, and not always the row itself."""
        return [
            other
            for other in range(len(partition.rows))
            if self.is_reached(partition, position, other, self.start, 1)
            and self.is_reached(partition, position, other, self.end, -1)
        ]

    def is_reached(self, partition: "Partition", position: int, other: int, bound: Bound, side: int) -> bool:
        """The other row is at the bound, or on that side of it."""
        if bound.distance is None:
            return True
        if self.unit == "ROWS":
            return side * (other - (position + bound.offset)) >= 0
        limit = partition.keys[position]
        if bound.direction:
            backwards = partition.orderings[0].descending
            limit = [moved(limit[0], Bound(-bound.direction if backwards else bound.direction, bound.distance).offset)]
        return side * compare_in_order(partition.orderings, partition.keys[other], limit) >= 0


WHOLE = Frame("RANGE", Bound(-1, None), Bound(1, None))
UP_TO_TIES = Frame("RANGE", Bound(-1, None), Bound(0))


def frame_of(text: str | None, orderings: Sequence[Ordering]) -> Frame:
    """The frame of a window step: Spark's default where the step has none."""
    if text is None:
        return UP_TO_TIES if orderings else WHOLE
    frame = parsed_frame(text)
    if frame.unit == "RANGE" and not frame.is_whole and not orderings:
        raise Unsupported("RANGE without an order")
    if frame.unit == "RANGE" and frame.has_offset and len(orderings) != 1:
        raise Unsupported("RANGE with an offset, and not one order expression")
    return frame


@cache
def parsed_frame(text: str) -> Frame:
    tree = sqlglot.parse_one(f"sum(x) OVER (ORDER BY y {text})", dialect="spark").args["spec"]
    start = bound_of(tree.args["start"], tree.args["start_side"])
    end = bound_of(tree.args["end"], tree.args["end_side"]) if tree.args.get("end") else Bound(0)
    if (start.distance, start.direction) == (None, 1) or (end.distance, end.direction) == (None, -1):
        raise Unsupported(f"no frame: {text}")
    bounded = start.distance is not None and end.distance is not None
    if bounded and all(is_number(b.distance) for b in (start, end)) and start.offset > end.offset:
        raise Unsupported(f"a frame that ends before it starts: {text}")
    return Frame(tree.args["kind"].upper(), start, end)


def bound_of(value, side: str | None) -> Bound:
    if value == "CURRENT ROW":
        return Bound(0)
    direction = {"PRECEDING": -1, "FOLLOWING": 1}[side.upper()]
    if value == "UNBOUNDED":
        return Bound(direction, None)
    return Bound(direction, span_of(value) if isinstance(value, exp.Interval) else value_of(value, Context(None)))


def span_of(node: exp.Interval) -> Span:
    amount, unit = int(node.this.name), node.args["unit"].name.upper().rstrip("S")
    if unit in ("MONTH", "YEAR"):
        return Span(amount * (12 if unit == "YEAR" else 1))
    if unit not in ("DAY", "HOUR", "MINUTE", "SECOND"):
        raise Unsupported(f"interval of {unit}")
    return Span(duration=datetime.timedelta(**{f"{unit.lower()}s": amount}))


def moved(value, offset):
    """A value of the order, so far away; null stays null."""
    if value is None:
        return None
    if isinstance(value, float) and is_number(offset):
        return value + float(offset)
    if is_number(value) and isinstance(offset, int | type(value)):
        return value + offset
    if isinstance(value, datetime.date):
        span = Span(duration=datetime.timedelta(days=offset)) if isinstance(offset, int) else offset
        if isinstance(span, Span):
            month = value.year * 12 + value.month - 1 + span.months
            year, month = month // 12, month % 12 + 1
            day = min(value.day, monthrange(year, month)[1])
            return value.replace(year=year, month=month, day=day) + span.duration
    raise Unsupported(f"{value!r} and a RANGE of {offset!r}")


# --- the place of a row -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """The rows of a partition in their order."""

    rows: list[Scope]
    keys: list[list]  # per row the values of the order expressions
    orderings: Sequence[Ordering]

    def is_tie(self, one: int, other: int) -> bool:
        return compare_in_order(self.orderings, self.keys[one], self.keys[other]) == 0

    def ties(self, position: int) -> list[int]:
        """The rows equal to this one in the order, itself among them."""
        return [other for other in range(len(self.rows)) if self.is_tie(position, other)]


@dataclass(frozen=True)
class Place:
    """The current row in its partition, for the functions of a window."""

    functions: ClassVar[dict[type, Callable]] = {}  # filled below; value_of looks here
    partition: Partition
    position: int
    frame: list[int]

    @property
    def earlier(self) -> range:
        """The rows strictly earlier in the order."""
        return range(self.partition.ties(self.position)[0])

    def context(self) -> Context:
        rows = self.partition.rows
        return Context(rows[self.position], [rows[i] for i in self.frame], self)


def ignores_nulls(node: exp.Expression) -> bool:
    return isinstance(node.parent, exp.IgnoreNulls)


# --- functions: each with the place of the current row ---


def dense_rank(place: Place) -> int:
    return 1 + sum(not place.partition.is_tie(i, i + 1) for i in place.earlier)


def percent_rank(place: Place) -> float:
    others = len(place.partition.rows) - 1
    return len(place.earlier) / others if others else 0.0


def cume_dist(place: Place) -> float:
    return (place.partition.ties(place.position)[-1] + 1) / len(place.partition.rows)


def ntile(node: exp.Ntile, context: Context) -> int:
    """As many buckets as asked for, the first ones larger by one where the rows do not divide evenly."""
    buckets, rows = value_of(node.this, context), len(context.window.partition.rows)
    sizes = [rows // buckets + (bucket < rows % buckets) for bucket in range(buckets)]
    return next(b + 1 for b in range(buckets) if context.window.position < sum(sizes[: b + 1]))


def values_in_frame(node: exp.Expression, context: Context) -> list:
    values = [value_of(node.this, Context(row)) for row in context.group]
    return [v for v in values if v is not None] if ignores_nulls(node) else values


def first(node, context):
    return next(iter(values_in_frame(node, context)), None)


def last(node, context):
    return next(reversed(values_in_frame(node, context)), None)


def nth(node, context):
    if node.args.get("from_first"):
        raise Unsupported("nth_value with a third argument")
    values, n = values_in_frame(node, context), value_of(node.args["offset"], context)
    return values[n - 1] if n <= len(values) else None


def collected(node, context):
    return [v for v in values_in_frame(node, context) if v is not None]


def way(node: exp.Lag | exp.Lead, place: Place) -> tuple[int | None, set[int]]:
    """The row that lag or lead takes, and all rows read on the way: without IGNORE NULLS only the one taken."""
    sign = 1 if isinstance(node, exp.Lead) else -1
    steps = value_of(node.args["offset"], Context(None)) if node.args.get("offset") else 1
    rows = place.partition.rows
    if not ignores_nulls(node):
        taken = place.position + sign * steps
        return (taken, {taken}) if 0 <= taken < len(rows) else (None, set())
    sign, steps = (sign, steps) if steps >= 0 else (-sign, -steps)
    passed, position = set(), place.position
    while steps:
        position += sign
        if not 0 <= position < len(rows):
            return None, passed
        passed.add(position)
        steps -= value_of(node.this, Context(rows[position])) is not None
    return position, passed


def neighbour(node: exp.Lag | exp.Lead, context: Context):
    taken, _ = way(node, context.window)
    if taken is not None:
        return value_of(node.this, Context(context.window.partition.rows[taken]))
    default = node.args.get("default")
    return None if default is None else value_of(default, context)


def nulls_clause(node, context):
    if type(node.this) not in OF_VALUES:
        raise Unsupported(node.sql("spark"))
    return value_of(node.this, context)


FIRST_OR_LAST = {
    exp.FirstValue: first,
    exp.First: first,
    exp.AnyValue: first,
    exp.LastValue: last,
    exp.Last: last,
    exp.NthValue: nth,
}
OF_VALUES = {**FIRST_OR_LAST, exp.Lag: neighbour, exp.Lead: neighbour}  # those that may ignore nulls
Place.functions.update(OF_VALUES)
Place.functions.update(
    {
        exp.RowNumber: lambda node, context: context.window.position + 1,
        exp.Rank: lambda node, context: len(context.window.earlier) + 1,
        exp.DenseRank: lambda node, context: dense_rank(context.window),
        exp.PercentRank: lambda node, context: percent_rank(context.window),
        exp.CumeDist: lambda node, context: cume_dist(context.window),
        exp.Ntile: ntile,
        exp.ArrayAgg: collected,
        exp.IgnoreNulls: nulls_clause,
        exp.RespectNulls: nulls_clause,
    }
)

# --- what is read -------------------------------------------------------------------------------------

# The functions that read their frame, and no other rows.
OVER_FRAME = (*AGGREGATES, *FIRST_OR_LAST, exp.ArrayAgg)
# The functions whose value, or whose rows, depend on the order of ties.
OVER_POSITIONS = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)
OVER_SEQUENCE = (*FIRST_OR_LAST, exp.ArrayAgg)


def rows_read(expression: str, place: Place) -> set[int]:
    """The rows of the partition that a measure reads for the current row: section 4, line by line."""
    read: set[int] = set()
    for node in parsed(str(expression)).walk():
        if isinstance(node, OVER_FRAME):
            read |= set(place.frame)
        elif isinstance(node, exp.RowNumber):
            read |= set(range(place.position))
        elif isinstance(node, exp.Rank | exp.DenseRank):
            read |= set(place.earlier)
        elif isinstance(node, exp.Lag | exp.Lead):
            read |= way(node, place)[1]
        elif isinstance(node, exp.Ntile | exp.PercentRank | exp.CumeDist):
            read |= set(range(len(place.partition.rows)))
    return read


def depends_on_ties(expression: str, frame: Frame) -> bool:
    """Values or lineage may be others where rows that are equal in the order change places."""
    tree = parsed(str(expression))
    if tree.find(*OVER_POSITIONS, *OVER_SEQUENCE) is not None:
        return True
    return frame.unit == "ROWS" and not frame.is_whole and tree.find(*OVER_FRAME) is not None


def needs_order(expression: str) -> bool:
    """Spark refuses these without an order."""
    ranks = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)
    return parsed(str(expression)).find(*ranks, exp.Lag, exp.Lead, exp.NthValue) is not None
