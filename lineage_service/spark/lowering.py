"""Instrumented plan to DataFrames: one function per operator. Only the public DataFrame API is used.

Each function gives the operator's rows with the handles that capture/ says they carry, and hands the lineage
tables it leaves to the stage. The user's expressions go to Spark as they were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import MapType

from lineage_service.capture.handles import concatenate_handles, merge_handles, side_space
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan
from lineage_service.capture.strategies import LATER
from lineage_service.plan.expressions import Expression, SortKey, with_stars_expanded
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
    keeps_order,
)
from lineage_service.spark.capture_columns import CaptureColumnNames, col, cols, no_id
from lineage_service.spark.faults import analysing
from lineage_service.spark.group_capture import capture_groups, capture_window_rows
from lineage_service.spark.groups import Members
from lineage_service.spark.node_scheduler import schedule_nodes
from lineage_service.spark.older_windows import partition_ids, rows_with_partitions
from lineage_service.spark.relation import Relation
from lineage_service.spark.semi_join import lower_semi_join
from lineage_service.spark.staging import Rehearsal, Stage
from lineage_service.spark.windows import measures_and_bounds, window_measures, window_spec


def lower_plan(
    plan: InstrumentedPlan,
    sources: Mapping[str, Relation],
    stage: Stage,
    names: CaptureColumnNames,
    rehearsed: Rehearsal | None = None,
    given: Mapping[str, Relation] | None = None,
) -> dict[str, Relation]:
    """Each node's relation, inputs first, datasets and tables handed to the stage; all analysis errors at once.

    `given` are relations of nodes that are there already, by id: nothing below them is looked at.

    What a rehearsal has built without anything written below it is not built again: Spark analyses each DataFrame anew.
    """

    def relation_of(each: InstrumentedNode, inputs: list[Relation]) -> Relation:
        node = each.node
        if given is not None and node.id in given:
            return given[node.id]
        with analysing(node.position, f"step '{node.step}'"):
            lowered = rehearsed.replay_node(each, stage) if rehearsed is not None else None
            if lowered is None:
                lowered = _lower_node(each, inputs, sources, stage, names)
            if isinstance(stage, Rehearsal):
                stage.record_node(each, lowered)
            return _materialise(each, lowered, stage, names)

    return schedule_nodes(plan.nodes, relation_of, stage.cancel)


def _materialise(each: InstrumentedNode, relation: Relation, stage: Stage, names: CaptureColumnNames) -> Relation:
    if each.materialised is None:
        return relation
    if each.is_dataset:
        return stage.dataset(each, relation)
    if not keeps_order(each.node):
        return Relation(
            stage.write_once(each.node.id, relation.frame, each.node.position), relation.columns, relation.handles
        )
    # Files are not read back in order: the rows' numbers in it are written along.
    numbered = relation.frame.withColumn(names.row, F.monotonically_increasing_id())
    again = stage.write_once(each.node.id, numbered, each.node.position).orderBy(names.row).drop(names.row)
    return Relation(again, relation.columns, relation.handles)


def _lower_node(
    each: InstrumentedNode,
    inputs: list[Relation],
    sources: Mapping[str, Relation],
    stage: Stage,
    names: CaptureColumnNames,
) -> Relation:
    node = each.node
    match node:
        case Source():
            return sources[node.step]
        case Filter():
            (below,) = inputs
            return Relation(below.frame.filter(expression_column(node.where, below)), below.columns, below.handles)
        case Project():
            return _select_columns(
                inputs[0], {named.name: expression_column(named.expression, inputs[0]) for named in node.columns}, names
            )
        case WithColumns():
            return _with_columns(
                inputs[0], {named.name: expression_column(named.expression, inputs[0]) for named in node.columns}, names
            )
        case Explode():
            return _explode(node, inputs[0], names)
        case Sort():
            (below,) = inputs
            return Relation(below.frame.orderBy(*order_columns(node.by, below)), below.columns, below.handles)
        case Limit():
            (below,) = inputs
            frame = below.frame.orderBy(*order_columns(node.by, below)) if node.by else below.frame
            return Relation(frame.limit(node.n), below.columns, below.handles)
        case Aggregate():
            return _aggregate(each, node, inputs[0], stage, names)
        case Distinct():
            return _distinct(each, inputs[0], stage, names)
        case Union():
            return _union(each, inputs, names)
        case Intersect() | Difference():
            return _set_operation(each, node, inputs, stage, names)
        case Join(how="semi") if each.tables:
            return lower_semi_join(each, node, inputs[0], inputs[1], stage, names)
        case Join():
            return _join(each, node, inputs[0], inputs[1], stage, names)
        case Window():
            return _window(each, node, inputs[0], stage, names)
        case _:
            assert_never(node)


def sort_again(node: Sort, relation: Relation) -> Relation:
    """Rows that a step has put in order, in that order again."""
    return Relation(relation.frame.orderBy(*order_columns(node.by, relation)), relation.columns, relation.handles)


def expression_column(expression: Expression, relation: Relation) -> Column:
    return F.expr(with_stars_expanded(expression, relation.columns))


def order_columns(keys: Sequence[SortKey], relation: Relation) -> list[Column]:
    return [_sort_column(expression_column(key.expression, relation), key) for key in keys]


def _sort_column(column: Column, key: SortKey) -> Column:
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _select_columns(below: Relation, columns: Mapping[str, Column], names: CaptureColumnNames) -> Relation:
    """These columns instead of all of the user's; handles go along."""
    chosen = [column.alias(name) for name, column in columns.items()]
    return Relation(below.frame.select(*chosen, *cols(names.handles(below.handles))), tuple(columns), below.handles)


def _with_columns(below: Relation, new: Mapping[str, Column], names: CaptureColumnNames) -> Relation:
    """New columns in the place of those of the same name, or behind all."""
    columns = {name: col(name) for name in below.columns}
    for name, column in new.items():
        old = next((each for each in columns if each.lower() == name.lower()), None)
        if old is None:
            columns[name] = column
        else:
            columns = {name if each == old else each: column if each == old else kept for each, kept in columns.items()}
    return _select_columns(below, columns, names)


def _explode(node: Explode, below: Relation, names: CaptureColumnNames) -> Relation:
    values = col(node.column)
    if isinstance(below.frame.schema[node.column].dataType, MapType):
        values = F.map_entries(values)
    return _with_columns(below, {node.alias: (F.explode_outer if node.outer else F.explode)(values)}, names)


def _aggregate(
    each: InstrumentedNode, node: Aggregate, below: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    # Under names of our own: a measure may be called like a column that is a key.
    measures = [
        expression_column(each.expression, below).alias(names.measure(index))
        for index, each in enumerate(node.measures)
    ]
    measured = [col(names.measure(index)).alias(each.name) for index, each in enumerate(node.measures)]
    plain = {key.name: _plain_column(key, below) for key in node.keys}
    keys = [plain[key.name] or names.key(index) for index, key in enumerate(node.keys)]
    computed = {
        keys[index]: expression_column(key.expression, below)
        for index, key in enumerate(node.keys)
        if plain[key.name] is None
    }
    columns = [col(name).alias(key.name) for name, key in zip(keys, node.keys, strict=True)]
    result = tuple(key.name for key in node.keys) + tuple(measure.name for measure in node.measures)
    if not each.tables:
        frame = below.frame.select(*cols(below.columns), *[column.alias(name) for name, column in computed.items()])
        rows = frame.groupBy(*map(col, keys)).agg(*measures) if measures else frame.select(*map(col, keys)).distinct()
        return Relation(rows.select(*columns, *measured), result, 0)
    needed = _columns_read_by(node.measures, below) | {name for name in keys if name not in computed}
    rows_below = below.frame.select(
        *[col(name) for name in below.columns if name in needed],
        *[column.alias(name) for name, column in computed.items()],
        *cols(names.handles(below.handles)),
    )
    groups = capture_groups(each, rows_below, keys, Members.all(below.handles), stage, names)
    groups.leave()
    rows = groups.aggregate(measures).select(*columns, *measured, col(names.group).alias(names.handle(0)))
    return Relation(rows, result, 1)


def _plain_column(key: NamedExpression, below: Relation) -> str | None:
    """The column a key is, where it is one; its values then need not be computed."""
    refs = key.expression.columns
    if len(refs) != 1 or len(refs[0].parts) != 1 or len(key.expression.tokens) != 1:
        return None
    return next((name for name in below.columns if name.lower() == refs[0].parts[0].lower()), None)


def _columns_read_by(measures: Sequence[NamedExpression], below: Relation) -> set[str]:
    """The columns the measures read: what else there is need not be written."""
    read = {word for measure in measures for word in measure.expression.words}
    expanded = any(
        with_stars_expanded(measure.expression, below.columns) != measure.expression.text for measure in measures
    )
    return {name for name in below.columns if expanded or name.lower() in read}


def _distinct(each: InstrumentedNode, below: Relation, stage: Stage, names: CaptureColumnNames) -> Relation:
    if not each.tables:
        return Relation(below.frame.select(*cols(below.columns)).distinct(), below.columns, 0)
    groups = capture_groups(each, below.frame, below.columns, Members.all(below.handles), stage, names)
    groups.leave()
    rows = groups.aggregate([]).select(*cols(below.columns), col(names.group).alias(names.handle(0)))
    return Relation(rows, below.columns, 1)


def _align_branch(
    relation: Relation, columns: Sequence[str], filled: Sequence[int | None], names: CaptureColumnNames
) -> DataFrame:
    """A branch under the first branch's column names and order, its handles in the merged places."""
    own = {name.lower(): name for name in relation.columns}
    handles = [no_id() if index is None else col(names.handle(index)) for index in filled]
    return relation.frame.select(
        *[col(own[name.lower()]).alias(name) for name in columns],
        *[handle.alias(names.handle(place)) for place, handle in enumerate(handles)],
    )


def _union(each: InstrumentedNode, inputs: list[Relation], names: CaptureColumnNames) -> Relation:
    merge = merge_handles([below.handles for below in each.inputs])
    columns = inputs[0].columns
    frames = [
        _align_branch(below, columns, filled, names) for below, filled in zip(inputs, merge.branches, strict=True)
    ]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other)
    # Unions of unions that are read under other names end in an invalid plan (Spark 4.3's RemoveRedundantAliases),
    # unless something stands between; a filter that keeps all is gone from the plan that runs.
    return Relation(frame.filter(F.lit(True)), columns, len(merge.handles))


def _set_operation(
    each: InstrumentedNode,
    node: Intersect | Difference,
    inputs: list[Relation],
    stage: Stage,
    names: CaptureColumnNames,
) -> Relation:
    """Intersect and difference: both sides' rows in one place, grouped by value, counted by side."""
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
    """The rows of the right side, where they are not all of a dataset: as one group."""
    if each.tables[1].everything is not None:
        return
    places = Members(tuple(branch.index(index) for index in range(right.handles)), side=1)
    one = F.lit(0).cast("bigint").alias(names.group)
    ids = places.select_rows(rows, names).select(one, *places.numbered_handles(names))
    _leave_side(each, ids, stage)


def _leave_side(each: InstrumentedNode, ids: DataFrame, stage: Stage) -> None:
    assert each.choice is not None
    space = side_space(each.node.id)
    if each.choice.strategy in LATER:
        stage.defer_table(space, lambda _: ids, each)
    else:
        stage.table(space, lambda: ids, each.node.position)


_SPARK_HOW = {"inner": "inner", "left": "left", "right": "right", "full": "full_outer", "semi": "left_semi",
              "anti": "left_anti", "cross": "cross"}  # fmt: skip


def _join(
    each: InstrumentedNode, node: Join, left: Relation, right: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    moved = right.frame.select(
        *cols(right.columns),
        *[col(names.handle(index)).alias(names.handle(left.handles + index)) for index in range(right.handles)],
    )
    one, other = left.frame.alias("left"), moved.alias("right")
    how = _SPARK_HOW[node.how]
    if node.using:
        joined = one.join(other, list(node.using), how)
    elif node.on is None:
        joined = one.crossJoin(other)
    else:
        joined = one.join(other, F.expr(node.on.text), how)
    if node.how in ("semi", "anti"):
        absence = [F.lit(0).cast("bigint").alias(names.handle(left.handles))] if each.tables else []
        if each.tables and each.tables[0].everything is None:
            ids = right.frame.select(F.lit(0).cast("bigint").alias(names.group), *cols(names.handles(right.handles)))
            _leave_side(each, ids, stage)
        columns = node.schema.names
        kept = joined.select(*cols(columns, "left"), *cols(names.handles(left.handles), "left"), *absence)
        return Relation(kept, columns, left.handles + len(absence))
    columns = node.schema.names
    of_left = {name.lower(): name for name in left.columns}
    shared = {name.lower() for name in node.using}
    chosen = [
        col(name) if name.lower() in shared else col(name, "left" if name.lower() in of_left else "right")
        for name in columns
    ]
    handles = names.handles(left.handles + right.handles)
    frame = joined.select(
        *[column.alias(name) for column, name in zip(chosen, columns, strict=True)], *[col(h).alias(h) for h in handles]
    )
    return Relation(frame, columns, len(handles))


def _window(each: InstrumentedNode, node: Window, below: Relation, stage: Stage, names: CaptureColumnNames) -> Relation:
    if not each.tables:
        spec, over = window_spec(node, below, names)
        return _with_columns(over, window_measures(node, spec), names)
    if not any(table.frames for table in each.tables):
        return _older_window(each, node, below, stage, names)
    frame, measures, bounds = measures_and_bounds(node, below, names)
    computed = _with_columns(Relation(frame, below.columns, below.handles), {**measures, **bounds}, names)
    columns = tuple(name for name in computed.columns if name not in bounds)
    rows = capture_window_rows(each, computed.frame, below.handles, stage, names)
    handles = cols(names.handles(below.handles))
    place = col(names.group).alias(names.handle(below.handles))
    # A dataset's rows are written with the bounds, where they need no copy of their own.
    return Relation(
        rows.select(*cols(columns), *handles, place, *(cols(tuple(bounds)) if each.is_dataset else ())),
        columns,
        below.handles + 1,
    )


def _older_window(
    each: InstrumentedNode, node: Window, below: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    """A window of a run that an earlier version made."""
    spec, over = window_spec(node, below, names)
    numbered, ids = partition_ids(over, node.partition_by, stage, names)
    measures = window_measures(node, spec)
    computed = _with_columns(numbered, {**measures, **ids}, names)
    rows = rows_with_partitions(each, computed, below, node.partition_by, stage, names)
    columns = tuple(name for name in computed.columns if name not in (names.group, names.check))
    place = col(names.group).alias(names.handle(below.handles))
    shown = rows.select(*cols(columns), *cols(names.handles(below.handles)), place)
    return Relation(shown, columns, below.handles + 1)
