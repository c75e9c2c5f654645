"""Determines where the partners of unmatched rows were lost, by evaluating the other side of a join with
relaxed steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.instrument import instrument
from lineage_service.capture.join_relaxation import RelaxedSide
from lineage_service.capture.row_paths import PathEdge
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Intersect, Join, Node
from lineage_service.spark.capture_columns import col, field_types, same_values
from lineage_service.spark.evaluation import Evaluation, RowProvenance
from lineage_service.spark.lowering import lower_plan
from lineage_service.spark.relation import Relation

Lowered = Callable[[Node], Relation]


def plain_lowering(plan: Plan, sources: Mapping[str, Relation], stage: Evaluation) -> Lowered:
    """Lowers a node over the sources, without handles."""

    def lower_node(node: Node) -> Relation:
        alone = Plan(plan.workflow, plan.sources, {"asked": node}, {"asked": "asked"}, ())
        return lower_plan(instrument(alone, "off"), sources, stage, stage.names)[node.id]

    return lower_node


def partner_rows(
    edge: PathEdge, number: int, relaxed: RelaxedSide, ended: DataFrame, reach: RowProvenance, lowered: Lowered
) -> DataFrame:
    """(edge, rid, k): the rows that ended at an edge and find a partner on the relaxed side with this `number`."""
    node, stage = edge.node, reach.stage
    incoming, other = stage.read[edge.below.node.id], lowered(relaxed.node)
    sides = ("left", "right") if edge.place == 0 else ("right", "left")
    rows, others = incoming.frame.alias(sides[0]), other.frame.alias(sides[1])
    if isinstance(node, Intersect):
        found = _equal_rows(incoming, other, stage)
    elif isinstance(node, Join) and node.using:
        found = rows.join(others, list(node.using), "left_semi")
    elif isinstance(node, Join) and node.on is not None:
        found = rows.join(others, F.expr(node.on.text), "left_semi")
    else:
        found = rows.join(others, F.lit(True), "left_semi")
    handles = [stage.names.handle(place) for place in range(incoming.handles)]
    kept = found.select(*map(col, handles))
    rids = reach.rows(kept, list(enumerate(edge.below.handles))).select(col(reach.rid).alias("rid")).distinct()
    wanted = ended.filter(col("edge") == edge.number).select(col("rid"))
    return rids.join(wanted, "rid", "left_semi").select(
        F.lit(edge.number).alias("edge"), col("rid"), F.lit(number).alias("k")
    )


def _equal_rows(rows: Relation, others: Relation, stage: Evaluation) -> DataFrame:
    own = {name.lower(): name for name in others.columns}
    new = [f"{stage.names.prefix}other{index}" for index in range(len(rows.columns))]
    renamed = others.frame.select(
        *[col(own[name.lower()]).alias(alias) for name, alias in zip(rows.columns, new, strict=True)]
    )
    same = same_values(list(map(col, rows.columns)), list(map(col, new)), field_types(rows.frame, rows.columns))
    return rows.frame.join(renamed, same, "left_semi")
