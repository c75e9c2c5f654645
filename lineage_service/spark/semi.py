"""Semi join under capture: the left row keeps its handles and gains one to the right rows that match it.

Where `on` compares keys, the right rows are kept once per key. Else the matching pairs themselves are kept.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import DataType

from lineage_service.capture.handles import group_space
from lineage_service.capture.instrument import Instrumented
from lineage_service.plan.conjuncts import KeyedCondition
from lineage_service.plan.nodes import Join
from lineage_service.spark.columns import Names, col, cols, common_key_type
from lineage_service.spark.groups import Members
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import Stage
from lineage_service.spark.strategies import Hashed, captured_groups, staged_only


def lower_semi_join(
    each: Instrumented, node: Join, left: Relation, right: Relation, stage: Stage, names: Names
) -> Relation:
    if node.keyed is not None:
        types = _key_types(node.keyed, left, right)
        if types is not None:
            return _by_key(each, node, node.keyed, types, left, right, stage, names)
    staged_only(each, "its keys are compared in a type that may merge them")
    return _by_pair(node, left, right, stage, names)


def _key_types(keyed: KeyedCondition, left: Relation, right: Relation) -> list[DataType] | None:
    """The type each key is compared in; None where Spark might convert one side in a way that merges keys."""
    lefts = left.frame.alias("left").select(*[F.expr(key) for key, _ in keyed.keys]).schema
    rights = right.frame.alias("right").select(*[F.expr(key) for _, key in keyed.keys]).schema
    types = [
        common_key_type(one.dataType, other.dataType) for one, other in zip(lefts.fields, rights.fields, strict=True)
    ]
    return [kind for kind in types if kind is not None] if None not in types else None


def _by_key(
    each: Instrumented,
    node: Join,
    keyed: KeyedCondition,
    types: list[DataType],
    left: Relation,
    right: Relation,
    stage: Stage,
    names: Names,
) -> Relation:
    keys = [names.key(index) for index in range(len(types))]
    rights = _filtered(right.frame.alias("right"), keyed.right_only)
    right_keys = [
        F.expr(key).cast(kind).alias(name) for (_, key), kind, name in zip(keyed.keys, types, keys, strict=True)
    ]
    matchable = rights.select(*right_keys, *cols(names.handles(right.handles)))
    for name in keys:
        matchable = matchable.filter(col(name).isNotNull())  # not dropna, which drops NaN too
    groups = captured_groups(each, matchable, keys, Members.all(right.handles), stage, names)
    groups.leave()
    lefts = _filtered(left.frame.alias("left"), keyed.left_only)
    left_keys = [F.expr(key).cast(kind) for (key, _), kind in zip(keyed.keys, types, strict=True)]
    columns = node.schema.names
    kept = [*cols(columns, "left"), *cols(names.handles(left.handles), "left")]
    if isinstance(groups, Hashed):
        found = groups.rows.alias("found")
        matched = lefts.join(found, _same(left_keys, keys), "left_semi")
        group = groups.ids(matched, left_keys, types)
    else:
        found = groups.aggregated([]).alias("found")
        matched = lefts.join(found, _same(left_keys, keys))
        group = col(names.group, "found")
    rows = matched.select(*kept, group.alias(names.handle(left.handles)))
    return Relation(rows, columns, left.handles + 1)


def _same(left_keys: list[Column], keys: list[str]) -> Column:
    condition: Column = F.lit(True)
    for key, name in zip(left_keys, keys, strict=True):
        condition = condition & (key == col(name, "found"))
    return condition


def _by_pair(node: Join, left: Relation, right: Relation, stage: Stage, names: Names) -> Relation:
    numbered = left.frame.withColumn(names.row, F.monotonically_increasing_id())
    lefts = stage.once(f"{node.id}:left", numbered, node.position)
    moved = right.frame.select(
        *cols(right.columns),
        *[col(names.handle(index)).alias(f"{names.handle(index)}_right") for index in range(right.handles)],
    )
    one, other = lefts.alias("left"), moved.alias("right")
    joined = one.join(other, F.expr(node.on.text)) if node.on is not None else one.join(other, list(node.using))
    pairs = stage.once(
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


def _filtered(frame: DataFrame, conditions: tuple[str, ...]) -> DataFrame:
    for condition in conditions:
        frame = frame.filter(F.expr(condition))
    return frame
