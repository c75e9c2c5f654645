"""Compiles the relation of a program's data frame to plan nodes. Each kind of relation is compiled in a file of its
own; what cannot be traced exactly raises Untraceable, with the program's line where it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lineage_service.errors import Position
from lineage_service.plan.column_demand import prune_columns
from lineage_service.plan.from_connect import (
    column_lists,
    frame_joins,
    frame_nulls,
    frame_sets,
    frame_subqueries,
    frame_unpivot,
    nearest_rows,
    row_operations,
    sql_relations,
)
from lineage_service.plan.from_connect.coverage import untraced_reason
from lineage_service.plan.from_connect.frame_aggregates import compile_aggregate
from lineage_service.plan.from_connect.frame_context import FrameContext, Lines
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.node_merging import merge_nodes
from lineage_service.plan.from_connect.select_lists import compile_project
from lineage_service.plan.from_connect.source_references import compile_source
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.plan.nodes import NamedExpression, Node, PlanError, Project, Source
from lineage_service.plan.schema import RESERVED
from lineage_service.plan.unknown_results import unknown_result
from lineage_service.spec.sql_parsing import deep_recursion

Compile = Callable[[FrameContext, Message, "int | None"], Frame]

COMPILED: Mapping[str, Compile] = {
    "source_reference": compile_source,
    "project": compile_project,
    "filter": row_operations.compile_filter,
    "sort": row_operations.compile_sort,
    "limit": row_operations.compile_limit,
    "offset": row_operations.compile_offset,
    "repartition": row_operations.compile_unchanged,
    "repartition_by_expression": row_operations.compile_repartition_by,
    "hint": row_operations.compile_hint,
    "subquery_alias": row_operations.compile_alias,
    "collect_metrics": row_operations.compile_unchanged,
    "with_watermark": row_operations.compile_unchanged,
    "with_columns": column_lists.compile_with_columns,
    "with_columns_renamed": column_lists.compile_renamed,
    "drop": column_lists.compile_drop,
    "to_df": column_lists.compile_to_df,
    "to_schema": column_lists.compile_to_schema,
    "aggregate": compile_aggregate,
    "join": frame_joins.compile_join,
    "lateral_join": frame_subqueries.compile_lateral_join,
    "as_of_join": nearest_rows.compile_as_of_join,
    "set_op": frame_sets.compile_set_operation,
    "deduplicate": frame_sets.compile_deduplicate,
    "fill_na": frame_nulls.compile_fill,
    "drop_na": frame_nulls.compile_drop_nulls,
    "replace": frame_nulls.compile_replace,
    "unpivot": frame_unpivot.compile_unpivot,
    "sql": sql_relations.compile_sql_relation,
    "with_relations": sql_relations.compile_with_relations,
}


def compile_relation(
    root: Message,
    step: str,
    position: Position | None,
    tables: Mapping[str, Node | Message],
    lines: Lines | None = None,
    result_names: Sequence[str] | None = None,
    schemas: Mapping[int, Sequence[tuple[str, str]]] | None = None,
) -> Node:
    """The last node of a step, which has the step's name and the columns under the program's names.

    tables: what names in the relation stand for: nodes of the workflow for its references to sources and steps, and
    stored relations for views · lines: file and line of relations, by plan id · result_names: the names of the columns
    as Spark gives them, where the caller knows them · schemas: likewise names and types of relations, by plan id;
    `relations_with_types_needed` says of which relations they are needed
    """
    nodes = [each for each in tables.values() if not isinstance(each, Message)]
    if any(not each.schema.known for each in nodes):
        return unknown_result(step, nodes, position)
    context = FrameContext(step, position, tables, lines or {}, _compile, schemas=schemas or {})
    try:
        with deep_recursion():
            frame = _compile(context, root)
            context.here = context.place_of(frame.plan_id)
            result = _named_result(context, frame, result_names)
            pruned = prune_columns(result, lambda node: node.step == step and not isinstance(node, Source))
            return merge_nodes(pruned, step)
    except PlanError as error:
        first = error.problems[0]
        place = first.position if first.position is not None else context.here or position
        raise Untraceable(context.names.with_shown(first.message), place) from error
    except RecursionError:
        raise Untraceable("the data frame is nested too deeply", context.here or position) from None
    except Untraceable as error:
        if error.position is None and position is not None:
            raise type(error)(error.reason, position) from error
        raise


def _compile(context: FrameContext, relation: Message) -> Frame:
    """A relation inside another. One that is read several times is compiled once."""
    kind, inner = kind_of(relation)
    common = relation.message("common")
    plan_id = common.number("plan_id") if common is not None and "plan_id" in common else None
    known = context.compiled.get(plan_id) if plan_id is not None else None
    if known is not None and known[0] == relation:
        return known[1]
    before = context.here
    context.here = context.place_of(plan_id) or before
    compiled = COMPILED.get(kind)
    if compiled is None:
        raise context.refuse(untraced_reason(kind))
    frame = _with_lifted(context, kind, context.with_schema(compiled(context, inner, plan_id)))
    context.here = before
    if plan_id is not None:
        context.compiled[plan_id] = (relation, frame)
    return frame


_LIFTING = frozenset({"filter", "project", "with_columns", "with_columns_renamed", "drop", "to_df", "subquery_alias",
                      "with_relations"})  # fmt: skip


def _with_lifted(context: FrameContext, kind: str, frame: Frame) -> Frame:
    """A frame with the lifted conditions of those it is made of, where its rows are still theirs."""
    below = tuple(condition for each in frame.inputs for condition in each.lifted)
    if not below or kind == "lateral_join":
        return frame
    if kind not in _LIFTING or (kind in ("project", "with_columns") and frame.opening != "project"):
        raise context.refuse("a subquery reads the frame around it below a group, a join or the like: write it as a "
                             "join")  # fmt: skip
    own = () if kind == "with_relations" else frame.lifted
    return replace(frame, lifted=below + own)


def _named_result(context: FrameContext, frame: Frame, names: Sequence[str] | None) -> Node:
    """The columns under the program's names."""
    shown = [each.name for each in frame.columns] if names is None else list(names)
    if len(shown) != len(frame.columns):
        raise context.refuse(f"{len(shown)} names for {len(frame.columns)} columns")
    seen: set[str] = set()
    for number, name in enumerate(shown):
        if name is None:
            raise context.refuse(f"the name that Spark gives column {number + 1} is not known here: use alias(…)")
        if name.lower() in seen:
            raise context.refuse(f"two columns are called '{name}'")
        if name.lower() == RESERVED:
            raise context.refuse(f"a column cannot be called '{RESERVED}', which is reserved")
        seen.add(name.lower())
    if not shown:
        raise context.refuse("the data frame has no columns")
    named = tuple(
        NamedExpression(str(name), context.expression(each.internal))
        for name, each in zip(shown, frame.columns, strict=True)
    )
    return Project(context.step, context.step, context.position, frame.node, named)
