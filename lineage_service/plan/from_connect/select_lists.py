"""Select lists over the rows of a frame: computed columns, aggregates of all rows, windows, generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lineage_service.plan.from_connect.bound_expressions import (
    aggregate_calls,
    as_column,
    column_expression,
    is_generator,
    walk,
    window_expressions,
    without_aliases,
)
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frame_generators import explode_rows
from lineage_service.plan.from_connect.frame_groups import group_rows
from lineage_service.plan.from_connect.frame_subqueries import attach_scalars, subqueries_of
from lineage_service.plan.from_connect.frame_windows import add_windows
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.result_names import result_name
from lineage_service.plan.from_connect.untraceable import UnknownFrameColumn
from lineage_service.plan.nodes import NamedExpression, Node, WithColumns


@dataclass(frozen=True, slots=True)
class SelectEntry:
    """An entry: a bound expression, and the names that the program gives it."""

    bound: Message
    names: tuple[str, ...] = ()


def entry_of(bound: Message) -> SelectEntry:
    kind, inner = kind_of(bound)
    if kind != "alias":
        return SelectEntry(bound)
    return SelectEntry(without_aliases(bound), inner.texts("name"))


def compile_project(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """select(): the columns that are listed."""
    given = inner.message("input")
    assert given is not None
    below = context.compile(context, given)
    rows, entries = below, list[SelectEntry]()
    for each in inner.messages("expressions"):
        try:
            entries += map(entry_of, Binder(context, (rows,)).bind_all([each]))
        except UnknownFrameColumn:
            named = _with_earlier_names(context, rows, entries)
            if named is None:
                raise
            rows, entries = named
            entries += map(entry_of, Binder(context, (rows,)).bind_all([each]))
    frame = select(context, rows, entries, plan_id)
    return frame if rows is below else replace(frame, inputs=(below,))


def _with_earlier_names(
    context: FrameContext, below: Frame, entries: Sequence[SelectEntry]
) -> tuple[Frame, list[SelectEntry]] | None:
    """The rows with the entries so far as columns, whose names the entries behind them may read; None where Spark has
    no such names."""
    known = {(column.name or "").lower() for column in below.columns}
    added = [each for each in entries if len(each.names) == 1 and each.names[0].lower() not in known]
    if not added or any(_is_no_value(each.bound) for each in entries):
        return None
    computed: list[NamedExpression] = []
    columns = {id(each): _column(context, below.node, each.bound, each.names[0], computed) for each in added}
    node = context.make(WithColumns, "columns", below.node, tuple(computed)) if computed else below.node
    rows = replace(below, node=node, columns=(*below.columns, *columns.values()))
    return rows, [
        SelectEntry(column_expression(columns[id(each)]), each.names) if id(each) in columns else each
        for each in entries
    ]


def _is_no_value(bound: Message) -> bool:
    """Whether it has an aggregate or window function, or returns several rows."""
    return any(aggregate_calls(bound)) or any(window_expressions(bound)) or any(map(is_generator, walk(bound)))


def select(context: FrameContext, below: Frame, entries: Sequence[SelectEntry], plan_id: int | None) -> Frame:
    """The frame of these entries."""
    generators = [each for each in entries if is_generator(each.bound)]
    if len(generators) > 1:
        raise context.refuse("two functions that return several rows stand in one select()")
    if any(subqueries_of(each.bound) for each in entries):
        node, bound = attach_scalars(context, below, below.node, [each.bound for each in entries])
        rows = replace(below, node=node)
        entries = [SelectEntry(new, each.names) for new, each in zip(bound, entries, strict=True)]
        return replace(select(context, rows, entries, plan_id), inputs=(below,))
    expressions = [each.bound for each in entries]
    if any(any(aggregate_calls(each)) for each in expressions):
        if generators:
            raise context.refuse("an aggregate function stands beside one that returns several rows")
        named = [each.names or _names(below.node, each.bound) for each in entries]
        grouped = group_rows(context, below.node, [], expressions)
        renamed = [SelectEntry(new, name) for new, name in zip(grouped.expressions, named, strict=True)]
        return _computed(context, grouped.node, below, renamed, plan_id, opening="closed")
    return _computed(context, below.node, below, entries, plan_id)


def _names(node: Node, bound: Message) -> tuple[str, ...]:
    name = result_name(node, bound)
    return () if name is None else (name,)


def _computed(
    context: FrameContext,
    node: Node,
    below: Frame,
    entries: Sequence[SelectEntry],
    plan_id: int | None,
    opening: str = "project",
) -> Frame:
    names = [each.names or _names(node, each.bound) for each in entries]
    node, expressions = add_windows(context, node, [each.bound for each in entries])
    columns: list[FrameColumn] = []
    computed: list[NamedExpression] = []
    generated: tuple[int, Message, tuple[str, ...]] | None = None
    for name, bound in zip(names, expressions, strict=True):
        if is_generator(bound):
            generated = (len(columns), bound, name)
            continue
        if len(name) > 1:
            raise context.refuse(f"{len(name)} names for an expression of one column")
        columns.append(_column(context, node, bound, name[0] if name else None, computed))
    if computed:
        node = context.make(WithColumns, "columns", node, tuple(computed))
    if generated is not None:
        place, bound, name = generated
        node, made = explode_rows(context, node, bound, name)
        columns[place:place] = made
        opening = "closed"
    hidden = below.hidden if opening == "project" else ()
    return Frame(node, tuple(columns), (below,), plan_id, hidden, opening)  # type: ignore[arg-type]


def _column(
    context: FrameContext, node: Node, bound: Message, name: str | None, computed: list[NamedExpression]
) -> FrameColumn:
    """A column that is passed on, or a new one."""
    column = as_column(bound)
    if column is not None:
        if name == column.name:
            return column
        return context.column(name, column.internal)
    internal = context.names.fresh("out", name if name and name.isidentifier() else "column")
    computed.append(NamedExpression(internal, context.value(bound)))
    context.note_type(internal, node, bound)
    return context.column(name, internal)


def refuse_aggregates_and_windows(context: FrameContext, bound: Message, where: str) -> None:
    for each in aggregate_calls(bound):
        raise context.refuse(f"{where} has an aggregate function: {kind_of(each)[0]}")
    if any(True for _ in window_expressions(bound)):
        raise context.refuse(f"{where} has a window function")
    if any(is_generator(each) for each in walk(bound)):
        raise context.refuse(f"{where} has a function that returns several rows")
