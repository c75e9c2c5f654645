"""Semi join under capture: the left row keeps its handles and gets a handle to the right rows that match it.

If `on` compares keys, the right rows are stored once per key; where few left rows look for many right ones, only those
that match (`Choice.is_reduced`). Otherwise the matching pairs are stored.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import DataType

from lineage_service.capture.handles import group_space
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.plan.conjuncts import EquiCondition
from lineage_service.plan.nodes import Join
from lineage_service.spark.capture_columns import CaptureColumnNames, col, cols, common_key_type
from lineage_service.spark.group_capture import HashedGroups, capture_groups, require_stage
from lineage_service.spark.groups import Members
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import Stage


def lower_semi_join(
    each: InstrumentedNode, node: Join, left: Relation, right: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    if node.equi_condition is not None:
        types = _key_types(node.equi_condition, left, right)
        if types is not None:
            return _semi_join_by_key(each, node, node.equi_condition, types, left, right, stage, names)
    require_stage(each, "its keys are compared in a type that may merge them")
    return _semi_join_by_pair(node, left, right, stage, names)


def _key_types(keyed: EquiCondition, left: Relation, right: Relation) -> list[DataType] | None:
    """The type in which each key is compared; None if Spark might convert one side in a way that merges keys."""
    lefts = left.frame.alias("left").select(*[F.expr(key) for key, _ in keyed.keys]).schema
    rights = right.frame.alias("right").select(*[F.expr(key) for _, key in keyed.keys]).schema
    types = [
        common_key_type(one.dataType, other.dataType) for one, other in zip(lefts.fields, rights.fields, strict=True)
    ]
    return [kind for kind in types if kind is not None] if None not in types else None


def _semi_join_by_key(
    each: InstrumentedNode,
    node: Join,
    keyed: EquiCondition,
    types: list[DataType],
    left: Relation,
    right: Relation,
    stage: Stage,
    names: CaptureColumnNames,
) -> Relation:
    keys = [names.key(index) for index in range(len(types))]
    rights = _apply_filters(right.frame.alias("right"), keyed.right_only)
    right_keys = [
        F.expr(key).cast(kind).alias(name) for (_, key), kind, name in zip(keyed.keys, types, keys, strict=True)
    ]
    matchable = rights.select(*right_keys, *cols(names.handles(right.handles)))
    for name in keys:
        matchable = matchable.filter(col(name).isNotNull())  # not dropna, which drops NaN too
    lefts = _apply_filters(left.frame.alias("left"), keyed.left_only)
    left_keys = [F.expr(key).cast(kind) for (key, _), kind in zip(keyed.keys, types, strict=True)]
    columns = node.schema.names
    if each.choice is not None and each.choice.is_reduced:
        if each.inputs[0].materialised is None or keyed.left_only:
            lefts = stage.write_once(f"{node.id}:left", lefts, node.position).alias("left")
        matchable = matchable.alias("found").join(lefts, _keys_match(left_keys, keys), "left_semi")
    groups = capture_groups(each, matchable, keys, Members.all(right.handles), stage, names)
    groups.leave()
    kept = [*cols(columns, "left"), *cols(names.handles(left.handles), "left")]
    if isinstance(groups, HashedGroups):
        found = groups.rows.alias("found")
        matched = lefts.join(found, _keys_match(left_keys, keys), "left_semi")
        group = groups.ids(matched, left_keys, types)
    else:
        found = groups.aggregate([]).alias("found")
        matched = lefts.join(found, _keys_match(left_keys, keys))
        group = col(names.group, "found")
    rows = matched.select(*kept, group.alias(names.handle(left.handles)))
    return Relation(rows, columns, left.handles + 1)


def _keys_match(left_keys: list[Column], keys: list[str]) -> Column:
    condition: Column = F.lit(True)
    for key, name in zip(left_keys, keys, strict=True):
        condition = condition & (key == col(name, "found"))
    return condition


def _semi_join_by_pair(
    node: Join, left: Relation, right: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    numbered = left.frame.withColumn(names.row, F.monotonically_increasing_id())
    lefts = stage.write_once(f"{node.id}:left", numbered, node.position)
    moved = right.frame.select(
        *cols(right.columns),
        *[col(names.handle(index)).alias(f"{names.handle(index)}_right") for index in range(right.handles)],
    )
    one, other = lefts.alias("left"), moved.alias("right")
    joined = one.join(other, F.expr(node.on.text)) if node.on is not None else one.join(other, list(node.using))
    pairs = stage.write_once(
        f"{node.id}:pairs",
        joined.select(
            col(names.row, "left").alias(names.group),
            *[
                col(f"{names.handle(index)}_right", "right").alias(names.handle(index))
                for index in range(right.handles)
            ],
        ),
        node.position,
    )
    stage.table(group_space(node.id), lambda: pairs, node.position)
    matched = pairs.select(col(names.group).alias(names.row)).distinct()
    columns = node.schema.names
    rows = lefts.join(matched, names.row, "left_semi").select(
        *cols(columns), *cols(names.handles(left.handles)), col(names.row).alias(names.handle(left.handles))
    )
    return Relation(rows, columns, left.handles + 1)


def _apply_filters(frame: DataFrame, conditions: tuple[str, ...]) -> DataFrame:
    for condition in conditions:
        frame = frame.filter(F.expr(condition))
    return frame
