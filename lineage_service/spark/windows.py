"""A window's measures, with the bounds of the rows that each row's measures read, computed in the same pass.

Spark evaluates all functions over one partitioning and order in one operator. So a row's number is its position in
exactly the order in which the measures were computed, even among ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.window_reads import Interval, Point, window_reads
from lineage_service.plan.expressions import SortKey, quote_identifier, with_stars_expanded
from lineage_service.plan.nodes import Window
from lineage_service.plan.window_calls import add_over_clauses
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.relation import Relation

SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
ALL = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def window_spec(node: Window, below: Relation, names: CaptureColumnNames) -> tuple[str, Relation]:
    """PARTITION BY and ORDER BY of a step, and its input.

    Keys that may differ when they are evaluated again, such as `rand()`, become columns of the input. Otherwise Spark
    would evaluate them once per function, and each function would have another order.
    """
    columns: list[Column] = []
    keys: list[str] = []
    for index, key in enumerate(node.order_by):
        text = with_stars_expanded(key.expression, below.columns)
        if not key.expression.repeatable:
            columns.append(F.expr(text).alias(names.key(index)))
            text = quote_identifier(names.key(index))
        keys.append(text + _direction(key))
    partition, order = ", ".join(quote_identifier(name) for name in node.partition_by), ", ".join(keys)
    parts = (f"PARTITION BY {partition}" if partition else "", f"ORDER BY {order}" if order else "")
    over = replace(below, frame=below.frame.select("*", *columns)) if columns else below
    return " ".join(part for part in parts if part), over


def window_measures(node: Window, spec: str) -> dict[str, Column]:
    frame = node.frame.text if node.frame is not None else ""
    return {named.name: F.expr(add_over_clauses(named.expression, spec, frame)) for named in node.measures}


def measures_and_bounds(
    node: Window, below: Relation, names: CaptureColumnNames
) -> tuple[DataFrame, Mapping[str, Column], Mapping[str, Column]]:
    """The input with computed columns, and over it the measures and the bounds, as distances from the row (null if
    nothing is read).
    """
    spec, below = window_spec(node, below, names)
    intervals = window_reads(node)
    counts = _BoundColumns(names, spec)
    measures = window_measures(node, spec)
    # Under names of our own: a measure may be called like a column that the order reads.
    computed = {names.measure(index): column for index, column in enumerate(measures.values())}
    bounds = [counts.bounds(each) for each in intervals]
    frame = below.frame.select("*", *[each.alias(name) for name, each in {**computed, **counts.first()}.items()])
    if counts.second:
        frame = frame.select("*", *[F.expr(text).alias(name) for name, text in counts.second.items()])
    shown = {name: col(names.measure(index)) for index, name in enumerate(measures)}
    distances = {}
    for index, (lo, hi) in enumerate(bounds):
        for name, text in zip(names.bounds(index), (lo, hi), strict=True):
            distances[name] = F.expr(f"CAST(CASE WHEN {lo} <= {hi} THEN {text} - {counts.row} END AS BIGINT)")
    return frame, shown, distances


class _BoundColumns:
    """Columns from which bounds are computed. Only those that some bound needs are added."""

    def __init__(self, names: CaptureColumnNames, spec: str) -> None:
        self.names, self.spec = names, spec
        self.row = quote_identifier(names.row)
        self.second: dict[str, str] = {}  # over the row's number, so one operator later
        self._first = {names.row: f"count(1) OVER ({spec} {SO_FAR})"}

    def first(self) -> dict[str, Column]:
        return {name: F.expr(text) for name, text in self._first.items()}

    def bounds(self, each: Interval) -> tuple[str, str]:
        """The first and the last position in the partition, counted from 1."""
        if each.lo.call is not None:
            return self._bounds_ignoring_nulls(each.lo.call.name, *each.lo.call.arguments)
        if each.lo.kind == "first_read":
            return self._over_frame("min", str(each.lo.text)), self._over_frame("max", str(each.lo.text))
        return self._lower(each.lo), self._upper(each.hi)

    def _lower(self, point: Point) -> str:
        match point.kind:
            case "start":
                return "1"
            case "first_peer":
                return self._rank()
            case _:
                return f"greatest(1, {self._offset_position(point)})"

    def _upper(self, point: Point) -> str:
        match point.kind:
            case "end":
                return self._size()
            case "last_peer":
                return self._count("last_peer", f"count(1) OVER ({self.spec})")
            case "before_peers":
                return f"({self._rank()} - 1)"
            case _:
                shifted = self._offset_position(point)
                return shifted if point.text is None and point.offset <= 0 else f"least({self._size()}, {shifted})"

    def _offset_position(self, point: Point) -> str:
        offset = str(point.offset) if point.text is None else point.text
        return f"({self.row} + CAST({offset} AS BIGINT))"

    def _bounds_ignoring_nulls(self, name: str, value: str, offset: str) -> tuple[str, str]:
        """From the row that a function returns to the row next to this one; if it returns none, all rows that it
        examined.
        """
        taken = f"{name}(CASE WHEN ({value}) IS NOT NULL THEN {self.row} END, {offset}) IGNORE NULLS OVER ({self.spec})"
        found = self._second_pass_column(taken)
        back = f"({offset}) > 0" if name == "lag" else f"({offset}) < 0"
        ahead = f"({offset}) < 0" if name == "lag" else f"({offset}) > 0"
        lower = f"CASE WHEN {back} THEN coalesce({found}, 1) ELSE {self.row} END"
        upper = f"CASE WHEN {ahead} THEN coalesce({found}, {self._size()}) ELSE {self.row} END"
        return lower, upper

    def _over_frame(self, word: str, frame: str) -> str:
        return self._second_pass_column(f"{word}({self.row}) OVER ({self.spec} {frame})")

    def _second_pass_column(self, text: str) -> str:
        for name, known in self.second.items():
            if known == text:
                return quote_identifier(name)
        name = f"{self.names.prefix}read{len(self.second)}"
        self.second[name] = text
        return quote_identifier(name)

    def _rank(self) -> str:
        return self._count("first_peer", f"rank() OVER ({self.spec})")

    def _size(self) -> str:
        return self._count("size", f"count(1) OVER ({self.spec} {ALL})")

    def _count(self, what: str, text: str) -> str:
        name = f"{self.names.prefix}{what}"
        self._first[name] = text
        return quote_identifier(name)


def _direction(key: SortKey) -> str:
    return f" {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
