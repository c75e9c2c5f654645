"""Subqueries of data frames in expressions: exists() and isin() as conditions of a filter, scalar(); lateral joins.

A subquery may read columns of the frame around it in its filters. Such a condition is not applied in the subquery: it
is lifted to where the two are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lineage_service.errors import Position
from lineage_service.plan.from_connect.bound_expressions import (
    column_expression,
    function_name,
    rewritten,
    walk,
)
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import conjunction, expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_sql.expression_texts import operand
from lineage_service.plan.from_sql.runtime_errors import more_than_one_row
from lineage_service.plan.nodes import Aggregate, How, Join, NamedExpression, Node, WithColumns


def subqueries_of(bound: Message) -> list[Message]:
    """The subqueries in an expression."""
    return [each for each in walk(bound) if kind_of(each)[0] == "subquery_expression"]


def keep_where_subquery(context: FrameContext, outer: Frame, node: Node, condition: Message) -> Node | None:
    """Keeps the rows for which exists() or isin() holds, or does not; None where the condition is something else."""
    negated = False
    while function_name(condition) in ("not", "!"):
        negated = not negated
        (condition,) = kind_of(condition)[1].messages("arguments")
    kind, inner = kind_of(condition)
    subquery = inner.text("subquery_type").removeprefix("SUBQUERY_TYPE_")
    if kind != "subquery_expression" or subquery not in ("EXISTS", "IN"):
        return None
    frame = _subquery_frame(context, outer, inner)
    conditions = _texts(context, frame.lifted)
    if subquery == "IN":
        values = inner.messages("in_subquery_values")
        if len(values) != len(frame.columns):
            raise context.refuse(f"isin() compares {len(values)} values with {len(frame.columns)} columns")
        for value, column in zip(values, frame.columns, strict=True):
            node, text = context.text_in(node, value, "operand")
            equal = f"{operand(text)} = {column.internal}"
            # As Spark has it: a comparison that is unknown keeps the row out of NOT IN too.
            conditions.append(f"({equal} OR ({equal}) IS NULL)" if negated else equal)
    how: How = "anti" if negated else "semi"
    on = context.scalar(conjunction(conditions))
    return context.make(Join, how, node, frame.node, how, on, ())


def attach_scalars(
    context: FrameContext, outer: Frame, node: Node, readers: Sequence[Message]
) -> tuple[Node, tuple[Message, ...]]:
    """The values of scalar subqueries as columns of the rows, and the expressions that read these instead."""
    replaced: dict[int, Message] = {}
    for subquery in (each for reader in readers for each in subqueries_of(reader)):
        inner = kind_of(subquery)[1]
        if inner.text("subquery_type") != "SUBQUERY_TYPE_SCALAR":
            raise context.refuse("exists() and isin() of a data frame are traced only as conditions of a filter, "
                                 "joined by AND")  # fmt: skip
        frame = _subquery_frame(context, outer, inner)
        if frame.lifted:
            raise context.refuse("a scalar subquery that reads columns of the frame around it: write it as a join")
        if len(frame.columns) != 1:
            raise context.refuse(f"a scalar subquery gives one column, and this gives {len(frame.columns)}")
        node, value = _only_row(context, node, frame)
        replaced[id(subquery)] = column_expression(context.column(None, value))
    if not replaced:
        return node, tuple(readers)
    return node, tuple(rewritten(reader, lambda each: replaced.get(id(each))) for reader in readers)


def _only_row(context: FrameContext, node: Node, frame: Frame) -> tuple[Node, str]:
    """Joins the one row that a subquery gives. More than one is an error of the run."""
    value = frame.columns[0].internal
    if isinstance(frame.node, Aggregate) and not frame.node.keys:
        return context.make(Join, "join", node, frame.node, "cross", None, ()), value
    count, only, result = (context.names.fresh("scalar", part) for part in ("rows", "only", "value"))
    measures = (
        NamedExpression(count, context.expression("count(1)")),
        NamedExpression(only, context.expression(f"max({value})")),
    )
    grouped = context.make(Aggregate, "only_row", frame.node, (), measures)
    joined = context.make(Join, "join", node, grouped, "cross", None, ())
    place = context.here or context.position or Position("", 1, 1)
    checked = context.scalar(f"CASE WHEN {count} > 1 THEN {more_than_one_row(place)} ELSE {only} END")
    return context.make(WithColumns, "scalar", joined, (NamedExpression(result, checked),)), result


def _subquery_frame(context: FrameContext, outer: Frame, inner: Message) -> Frame:
    relation = context.references.get(inner.number("plan_id"))
    if relation is None:
        raise context.refuse("the data frame of a subquery is not part of the plan")
    return compiled_inside(context, outer, relation)


def compiled_inside(context: FrameContext, outer: Frame, relation: Message) -> Frame:
    """A relation whose filters may read columns of another frame. Its columns have names of their own, also where both
    read the same."""
    enclosing, compiled = context.enclosing, context.compiled
    context.enclosing, context.compiled = (outer,), {}
    try:
        return context.compile(context, relation)
    finally:
        context.enclosing, context.compiled = enclosing, compiled


def _texts(context: FrameContext, conditions: Sequence[Message]) -> list[str]:
    texts = []
    for each in conditions:
        text, is_exact = expression_text(each)
        if not is_exact:
            raise context.refuse("a condition of a subquery has a function that no text of SQL can call")
        texts.append(text)
    return texts


_HOW: dict[str, How] = {"JOIN_TYPE_INNER": "inner", "JOIN_TYPE_LEFT_OUTER": "left", "JOIN_TYPE_CROSS": "inner"}


def compile_lateral_join(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """lateralJoin(): the right side may read columns of the left one in its filters."""
    left_given, right_given = inner.message("left"), inner.message("right")
    assert left_given is not None
    assert right_given is not None
    left = context.compile(context, left_given)
    right = compiled_inside(context, left, right_given)
    how = _HOW.get(inner.text("join_type"))
    if how is None:
        raise context.refuse(f"a lateral join of the kind {inner.text('join_type')} is not traced")
    conditions = list(right.lifted)
    given = inner.message("join_condition")
    if given is not None:
        conditions.append(Binder(context, (left, right)).bind(given))
    on = context.scalar(conjunction(_texts(context, conditions)))
    node = context.make(Join, "lateral", left.node, right.node, how, on, ())
    return Frame(node, left.columns + right.columns, (left, replace(right, lifted=())), plan_id)
