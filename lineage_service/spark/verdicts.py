"""Determines for requested rows that reach a step whether they pass it and, if not, why.

A verdict is (edge, rid, passed, marks, n). If several rows derive from a requested row, it passes if one of them does.
`marks` has a bit for each reason of the edge (capture/drop_reasons.py); `n` is the position in an order, if there is
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import MapType

from lineage_service.capture.drop_reasons import conditions_of, limit_order
from lineage_service.capture.handles import Handle, step_space
from lineage_service.capture.nondeterminism import Nondeterminism
from lineage_service.capture.row_paths import PathEdge
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Difference, Explode, Filter, GroupLimit, Intersect, Join, Limit, Window
from lineage_service.spark.capture_columns import col, field_types, same_values
from lineage_service.spark.evaluation import Evaluation, RowProvenance
from lineage_service.spark.lowering import expression_column, order_columns
from lineage_service.spark.relation import Relation

Numbered = Sequence[tuple[int, Handle]]


@dataclass
class Verdicts:
    """Computes the verdicts of edges. `below` describes the nondeterminism of the rows that each edge reads.

    guarded: a condition of a predicate is evaluated only if those before it do not fail, as in Spark; otherwise all
    conditions are evaluated, so that several reasons can be reported
    """

    stage: Evaluation
    reach: RowProvenance
    guarded: bool = False

    def of(self, edge: PathEdge, below: Nondeterminism) -> DataFrame:
        incoming, handles = self.stage.read[edge.below.node.id], list(enumerate(edge.below.handles))
        node = edge.node
        if isinstance(node, Filter):
            frame = self._filter_verdicts(node, incoming, below, witnessed=edge.witness is not None)
        elif isinstance(node, Explode):
            frame = self._explode_verdicts(node, incoming)
        elif isinstance(node, Intersect | Difference) and edge.witness is None:
            frame = self._set_operation_verdicts(edge, incoming)
        else:
            frame = self._with_constant_verdict(incoming.frame, place=self._order_ranks(edge, incoming, below))
        found = self._rows(edge, frame, handles)
        passed = self._passing_rows(edge)
        return found if passed is None else found.unionByName(passed)

    def _rows(self, edge: PathEdge, frame: DataFrame, handles: Numbered) -> DataFrame:
        rows = self.reach.rows(frame, handles, ["passed", "marks", "n"])
        return rows.select(
            F.lit(edge.number).alias("edge"), col(self.reach.rid).alias("rid"), col("passed"), col("marks"), col("n")
        )

    def _passing_rows(self, edge: PathEdge) -> DataFrame | None:
        """The rows that pass, if these are determined from the step's output; None if the verdicts contain that
        already.
        """
        if edge.witness is not None:
            pairs = self.reach.pairs_behind(step_space(edge.witness))
            if pairs is None:
                return None
            return pairs.select(
                F.lit(edge.number).alias("edge"), col(self.reach.rid).alias("rid"), *_verdict_columns(True)
            )
        if isinstance(edge.node, Filter | Explode | Intersect | Difference):
            return None
        given = self.stage.computed[edge.node.id]
        return self._rows(edge, self._with_constant_verdict(given.frame, passed=True), _own_handles(edge))

    def _with_constant_verdict(
        self, frame: DataFrame, *, passed: bool = False, place: Column | None = None
    ) -> DataFrame:
        return _with_verdict_columns(frame, F.lit(passed), F.lit(0 if passed else 1), place)

    def _filter_verdicts(
        self, node: Filter, below: Relation, nondeterminism: Nondeterminism, *, witnessed: bool
    ) -> DataFrame:
        conditions = conditions_of(node, nondeterminism)
        marks: Column = F.lit(0).cast("bigint")
        sound: Column = F.lit(True)  # no condition so far has failed
        for index, text in enumerate(conditions.evaluated):
            holds = expression_column(Expression(text), below)
            if self.guarded:
                holds = F.when(sound, holds).otherwise(F.lit(True))
            bit = F.when(holds.isNull(), 2 << (2 * index)).when(~holds, 1 << (2 * index)).otherwise(0)
            marks = marks + bit.cast("bigint")
            sound = sound & F.coalesce(holds, F.lit(not self.guarded))
        rest = F.when(marks == 0, F.lit(1 << (2 * len(conditions.evaluated)))).otherwise(marks)
        passed = F.lit(False) if witnessed else F.coalesce(expression_column(node.where, below), F.lit(False))
        return _with_verdict_columns(below.frame, passed, rest)

    def _explode_verdicts(self, node: Explode, below: Relation) -> DataFrame:
        values = col(node.column)
        if isinstance(below.frame.schema[node.column].dataType, MapType):
            values = F.map_keys(values)
        size = F.coalesce(F.when(values.isNotNull(), F.size(values)), F.lit(0))
        return _with_verdict_columns(below.frame, size > 0, F.when(values.isNull(), 1).otherwise(2))

    def _set_operation_verdicts(self, edge: PathEdge, below: Relation) -> DataFrame:
        """A row passes if the step's output contains a row with the same values."""
        given = self.stage.computed[edge.node.id]
        types = field_types(given.frame, given.columns)
        own = {name.lower(): name for name in below.columns}
        left = [f"{self.stage.names.prefix}own{index}" for index in range(len(types))]
        right = [f"{self.stage.names.prefix}given{index}" for index in range(len(types))]
        values = {
            new: col(own[name.lower()]).cast(kind) for new, name, kind in zip(left, given.columns, types, strict=True)
        }
        rows = below.frame.withColumns(values)
        others = given.frame.select(*[col(name).alias(new) for name, new in zip(given.columns, right, strict=True)])
        same = same_values([col(name) for name in left], [col(name) for name in right], types)
        passing = self._with_constant_verdict(rows.join(others, same, "left_semi"), passed=True)
        return self._with_constant_verdict(rows).unionByName(passing)

    def _order_ranks(self, edge: PathEdge, below: Relation, nondeterminism: Nondeterminism) -> Column | None:
        keys = limit_order(edge.node)
        if not keys or any(
            not key.expression.repeatable or key.expression.words & nondeterminism.columns for key in keys
        ):
            return None
        return F.rank().over(Over.orderBy(*order_columns(keys, below)))


def _with_verdict_columns(frame: DataFrame, passed: Column, marks: Column, place: Column | None = None) -> DataFrame:
    return frame.withColumns(
        {"passed": passed, "marks": marks.cast("bigint"), "n": _null_id() if place is None else place.cast("bigint")}
    )


def _verdict_columns(passed: bool) -> list[Column]:
    return [F.lit(passed).alias("passed"), F.lit(0).cast("bigint").alias("marks"), _null_id().alias("n")]


def _null_id() -> Column:
    return F.lit(None).cast("bigint")


def _own_handles(edge: PathEdge) -> Numbered:
    """The handles of a step's rows that come from one input."""
    carried = list(enumerate(edge.each.carried))
    if not isinstance(edge.node, Join):
        return carried
    left, right = (len(each.handles) for each in edge.each.inputs)
    return carried[:left] if edge.place == 0 else carried[left : left + right]


def is_order_total(node: Limit | Window, below: Relation) -> bool:
    """Whether the order of a limit or window has no ties that affect the result."""
    if isinstance(node, GroupLimit):
        return False  # not looked at group by group
    if isinstance(node, Limit):
        keys = limit_order(node)
        if node.n == 0 or (node.last is None and not node.offset):
            return True
        if not keys:
            return not node.offset and node.n is not None and below.frame.limit(node.n + 1).count() <= node.n
        places = below.frame.select(F.rank().over(Over.orderBy(*order_columns(keys, below))).alias("place"))
        # No rows that are equal in the order are on both sides of where it is cut.
        return all(
            places.filter(col("place") <= cut).limit(cut + 1).count() <= cut for cut in (node.offset, node.last) if cut
        )
    if not node.order_by:
        return False
    partition = [col(name).alias(f"p{index}") for index, name in enumerate(node.partition_by)]
    order = [expression_column(key.expression, below).alias(f"o{index}") for index, key in enumerate(node.order_by)]
    rows = below.frame.select(*partition, *order)
    return rows.groupBy(*rows.columns).count().filter(col("count") > 1).isEmpty()


def all_verdicts(verdicts: Verdicts, edges: Sequence[tuple[PathEdge, Nondeterminism]]) -> DataFrame:
    """The union of the verdicts of several edges."""
    return reduce(lambda one, other: one.unionByName(other), [verdicts.of(edge, below) for edge, below in edges])
