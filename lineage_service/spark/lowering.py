"""Instrumented plan to DataFrames: one function per operator. Uses only the public DataFrame API.

Each function returns the operator's rows with the handles that capture/ determined, and passes lineage tables to the
stage. The user's expressions are passed to Spark unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import MapType

from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan
from lineage_service.plan.expressions import Expression, SortKey, with_stars_expanded
from lineage_service.plan.from_connect.message_expressions import MessageExpression
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    GroupLimit,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
    keeps_order,
)
from lineage_service.spark.capture_columns import CaptureColumnNames, col, cols
from lineage_service.spark.faults import analysing
from lineage_service.spark.group_capture import capture_groups, capture_window_rows, leave_side_table
from lineage_service.spark.groups import Members
from lineage_service.spark.node_scheduler import schedule_nodes
from lineage_service.spark.older_windows import partition_ids, rows_with_partitions
from lineage_service.spark.relation import Relation
from lineage_service.spark.semi_join import lower_semi_join
from lineage_service.spark.set_operations import lower_set_operation, lower_union
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
    """The relation of each node, inputs first. Datasets and tables are passed to the stage. Analysis errors of all
    nodes are raised together.

    given: relations of nodes that exist already, by id; nodes below them are not lowered
    rehearsed: what a rehearsal built above sources only is reused, because Spark would analyse it again
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
            chosen = _select_columns(
                inputs[0], {named.name: expression_column(named.expression, inputs[0]) for named in node.columns}, names
            )
            return chosen if node.hint is None else replace(chosen, frame=chosen.frame.hint(node.hint))
        case WithColumns():
            return _with_columns(
                inputs[0], {named.name: expression_column(named.expression, inputs[0]) for named in node.columns}, names
            )
        case Explode():
            return _explode(node, inputs[0], names)
        case Sort():
            (below,) = inputs
            return Relation(below.frame.orderBy(*order_columns(node.by, below)), below.columns, below.handles)
        case GroupLimit():
            return _group_limit(node, inputs[0], names)
        case Limit():
            (below,) = inputs
            frame = below.frame.orderBy(*order_columns(node.by, below)) if node.by else below.frame
            frame = frame.offset(node.offset) if node.offset else frame
            return Relation(frame if node.n is None else frame.limit(node.n), below.columns, below.handles)
        case Aggregate():
            return _aggregate(each, node, inputs[0], stage, names)
        case OuterValues():
            values = inputs[0].frame.select(*cols(inputs[0].columns))
            return Relation(values if node.repeats else values.distinct(), inputs[0].columns, 0)
        case Distinct():
            return _distinct(each, inputs[0], stage, names)
        case Union():
            return lower_union(each, node, inputs, names)
        case Intersect() | Difference():
            return lower_set_operation(each, node, inputs, stage, names)
        case Join(how="semi") if each.tables:
            return lower_semi_join(each, node, inputs[0], inputs[1], stage, names)
        case Join():
            return _join(each, node, inputs[0], inputs[1], stage, names)
        case Window():
            return _window(each, node, inputs[0], stage, names)
        case _:
            assert_never(node)


def _group_limit(node: GroupLimit, below: Relation, names: CaptureColumnNames) -> Relation:
    order = order_columns(node.by, below) or [F.lit(1)]
    place = F.row_number().over(Over.partitionBy(*map(col, node.per)).orderBy(*order))
    numbered = below.frame.withColumn(names.row, place)
    taken = numbered.filter(col(names.row) > node.offset)
    taken = taken if node.last is None else taken.filter(col(names.row) <= node.last)
    return Relation(taken.drop(names.row), below.columns, below.handles)


def sort_again(node: Sort, relation: Relation) -> Relation:
    """Sorts rows again in the order that a step defines."""
    return Relation(relation.frame.orderBy(*order_columns(node.by, relation)), relation.columns, relation.handles)


def expression_column(expression: Expression, relation: Relation) -> Column:
    if isinstance(expression, MessageExpression):
        from lineage_service.spark.connect.columns import message_column  # needs gRPC, which only Connect has

        return message_column(expression.message)
    return F.expr(with_stars_expanded(expression, relation.columns))


def order_columns(keys: Sequence[SortKey], relation: Relation) -> list[Column]:
    return [_sort_column(expression_column(key.expression, relation), key) for key in keys]


def _sort_column(column: Column, key: SortKey) -> Column:
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _select_columns(below: Relation, columns: Mapping[str, Column], names: CaptureColumnNames) -> Relation:
    """The relation with these columns instead of the user's columns. Handles are kept."""
    chosen = [column.alias(name) for name, column in columns.items()]
    return Relation(below.frame.select(*chosen, *cols(names.handles(below.handles))), tuple(columns), below.handles)


def _with_columns(below: Relation, new: Mapping[str, Column], names: CaptureColumnNames) -> Relation:
    """The relation with new columns, in place of those of the same name or at the end."""
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
    keys = list(dict.fromkeys(keys))  # two keys may be one column: a value, and what a subquery compares it with
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
    """The column that a key consists of; None if its values must be computed."""
    refs = key.expression.columns
    if len(refs) != 1 or len(refs[0].parts) != 1 or len(key.expression.tokens) != 1:
        return None
    return next((name for name in below.columns if name.lower() == refs[0].parts[0].lower()), None)


def _columns_read_by(measures: Sequence[NamedExpression], below: Relation) -> set[str]:
    """The columns that the measures read. Others need not be written."""
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


_SPARK_HOW = {"inner": "inner", "left": "left", "right": "right", "full": "full_outer", "semi": "left_semi",
              "anti": "left_anti", "cross": "cross"}  # fmt: skip


def _join(
    each: InstrumentedNode, node: Join, left: Relation, right: Relation, stage: Stage, names: CaptureColumnNames
) -> Relation:
    traces_absence = node.absence and bool(each.tables)
    matched = [F.lit(True).alias(names.matched)] if traces_absence else []
    moved = right.frame.select(
        *cols(right.columns),
        *[col(names.handle(index)).alias(names.handle(left.handles + index)) for index in range(right.handles)],
        *matched,
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
        _leave_right_side(each, right, stage, names)
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
    absence = []
    if traces_absence:
        _leave_right_side(each, right, stage, names)
        unmatched = F.when(col(names.matched).isNull(), F.lit(0).cast("bigint"))
        absence = [unmatched.alias(names.handle(len(handles)))]
    frame = joined.select(
        *[column.alias(name) for column, name in zip(chosen, columns, strict=True)],
        *[col(h).alias(h) for h in handles],
        *absence,
    )
    return Relation(frame, columns, len(handles) + len(absence))


def _leave_right_side(each: InstrumentedNode, right: Relation, stage: Stage, names: CaptureColumnNames) -> None:
    """Leaves the rows of a right side whose absence of a match counts, unless they are all of a dataset."""
    if each.tables and each.tables[0].everything is None:
        ids = right.frame.select(F.lit(0).cast("bigint").alias(names.group), *cols(names.handles(right.handles)))
        leave_side_table(each, ids, stage)


def _window(each: InstrumentedNode, node: Window, below: Relation, stage: Stage, names: CaptureColumnNames) -> Relation:
    if not each.tables:
        spec, over = window_spec(node, below, names)
        return _with_columns(over, window_measures(node, spec), names)
    if not any(table.frames for table in each.tables):
        return _older_window(each, node, below, stage, names)
    frame, measures, bounds = measures_and_bounds(node, below, names)
    computed = _with_columns(Relation(frame, below.columns, below.handles), {**measures, **bounds}, names)
    columns = tuple(name for name in computed.columns if name not in bounds)
    members = next(table for table in each.tables if not table.frames)
    rows = capture_window_rows(each, computed.frame, len(members.handles), stage, names)
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
    """A window as captured by an earlier version."""
    spec, over = window_spec(node, below, names)
    numbered, ids = partition_ids(over, node.partition_by, stage, names)
    measures = window_measures(node, spec)
    computed = _with_columns(numbered, {**measures, **ids}, names)
    rows = rows_with_partitions(each, computed, below, node.partition_by, stage, names)
    columns = tuple(name for name in computed.columns if name not in (names.group, names.check))
    place = col(names.group).alias(names.handle(below.handles))
    shown = rows.select(*cols(columns), *cols(names.handles(below.handles)), place)
    return Relation(shown, columns, below.handles + 1)
