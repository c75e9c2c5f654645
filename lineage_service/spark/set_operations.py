"""Union, intersect and difference as DataFrames.

The rows of all branches get the column names and the order of the first branch, and their handles the merged places.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lineage_service.capture.handles import concatenate_handles, merge_handles
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.plan.nodes import Difference, Intersect, Union
from lineage_service.spark.capture_columns import CaptureColumnNames, col, cols, no_id
from lineage_service.spark.group_capture import capture_groups, leave_side_table
from lineage_service.spark.groups import Members
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import Stage


def _align_branch(
    relation: Relation, columns: Sequence[str], filled: Sequence[int | None], names: CaptureColumnNames
) -> DataFrame:
    """A branch with the column names and order of the first branch, and its handles at their merged places."""
    own = {name.lower(): name for name in relation.columns}
    handles = [no_id() if index is None else col(names.handle(index)) for index in filled]
    return relation.frame.select(
        *[col(own[name.lower()]).alias(name) for name in columns],
        *[handle.alias(names.handle(place)) for place, handle in enumerate(handles)],
    )


def _with_fields_of(first: DataFrame, other: DataFrame) -> DataFrame:
    """The rows of another branch, in which fields of structs are called as in the first branch, by their position."""
    names = [field.name for field in other.schema]
    types = [_renamed(own.dataType, wanted.dataType) for own, wanted in zip(other.schema, first.schema, strict=True)]
    if types == [field.dataType for field in other.schema]:
        return other
    first.union(other)  # Spark refuses here what it does not unite: under the same names it would unite more
    return other.select(*[col(name).cast(type_).alias(name) for name, type_ in zip(names, types, strict=True)])


def _renamed(own: DataType, wanted: DataType) -> DataType:
    match own, wanted:
        case StructType(), StructType() if len(own) == len(wanted):
            return StructType(
                [
                    StructField(theirs.name, _renamed(mine.dataType, theirs.dataType), mine.nullable)
                    for mine, theirs in zip(own, wanted, strict=True)
                ]
            )
        case ArrayType(), ArrayType():
            return ArrayType(_renamed(own.elementType, wanted.elementType), own.containsNull)
        case MapType(), MapType():
            key = _renamed(own.keyType, wanted.keyType)
            return MapType(key, _renamed(own.valueType, wanted.valueType), own.valueContainsNull)
    return own


def lower_union(each: InstrumentedNode, node: Union, inputs: list[Relation], names: CaptureColumnNames) -> Relation:
    merge = merge_handles([below.handles for below in each.inputs])
    columns = inputs[0].columns
    frames = [
        _align_branch(below, columns, filled, names) for below, filled in zip(inputs, merge.branches, strict=True)
    ]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(_with_fields_of(frame, other) if node.fields_by_position else other)
    # Unions of unions that are read under other names end in an invalid plan (Spark 4.3's RemoveRedundantAliases),
    # unless something stands between; a filter that keeps all is gone from the plan that runs.
    return Relation(frame.filter(F.lit(True)), columns, len(merge.handles))


def lower_set_operation(
    each: InstrumentedNode,
    node: Intersect | Difference,
    inputs: list[Relation],
    stage: Stage,
    names: CaptureColumnNames,
) -> Relation:
    """Intersect and difference: the rows of both sides in one relation, grouped by value and counted by side."""
    columns = inputs[0].columns
    branches = [below.handles for below in each.inputs]
    merge = concatenate_handles(branches) if isinstance(node, Intersect) else merge_handles(branches)
    sides = [
        _align_branch(below, columns, filled, names).withColumn(names.side, F.lit(side))
        for side, (below, filled) in enumerate(zip(inputs, merge.branches, strict=True))
    ]
    if not each.tables:
        return Relation(_plain_set_operation(node, sides[0].drop(names.side), sides[1].drop(names.side)), columns, 0)
    both = sides[0].unionByName(sides[1])
    members = Members.all(len(merge.handles))
    if isinstance(node, Difference):
        members = Members(tuple(merge.branches[0].index(index) for index in range(inputs[0].handles)), side=0)
    groups = capture_groups(each, both, columns, members, stage, names)
    of_left, of_right = (F.count_if(col(names.side) == side) for side in (0, 1))
    if isinstance(node, Intersect):
        copies = F.least(of_left, of_right)
    elif node.all:
        copies = of_left - of_right
    else:
        copies = F.when(of_right == 0, of_left).otherwise(0)
    counted = groups.aggregate([copies.alias(names.copies)]).filter(col(names.copies) > 0)
    groups.leave(counted)
    if isinstance(node, Difference):
        _difference_side(each, groups.rows, merge.branches[1], inputs[1], stage, names)
    rows = counted.select(
        *cols(columns),
        col(names.group).alias(names.handle(0)),
        *([F.lit(0).cast("bigint").alias(names.handle(1))] if isinstance(node, Difference) else []),
        col(names.copies),
    )
    if node.all:
        rows = rows.withColumn(names.copies, F.explode(F.sequence(F.lit(1).cast("bigint"), col(names.copies))))
    return Relation(rows.select(*cols(columns), *cols(names.handles(len(each.carried)))), columns, len(each.carried))


def _plain_set_operation(node: Intersect | Difference, left: DataFrame, right: DataFrame) -> DataFrame:
    if isinstance(node, Intersect):
        return left.intersectAll(right) if node.all else left.intersect(right)
    return left.exceptAll(right) if node.all else left.subtract(right)


def _difference_side(
    each: InstrumentedNode,
    rows: DataFrame,
    branch: Sequence[int | None],
    right: Relation,
    stage: Stage,
    names: CaptureColumnNames,
) -> None:
    """The table of the right side's rows as one group, unless they are all rows of a dataset."""
    if each.tables[1].everything is not None:
        return
    places = Members(tuple(branch.index(index) for index in range(right.handles)), side=1)
    one = F.lit(0).cast("bigint").alias(names.group)
    ids = places.select_rows(rows, names).select(one, *places.numbered_handles(names))
    leave_side_table(each, ids, stage)
