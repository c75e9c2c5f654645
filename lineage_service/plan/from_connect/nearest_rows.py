"""As-of joins: each row of the left side with the nearest row of the right side.

The right rows that a row may be joined with are found for each of the distinct values that the condition reads of the
left side (`OuterValues`), and numbered by their distance. The nearest is joined with the left rows by these values.
"""

from __future__ import annotations

from collections.abc import Mapping

from lineage_service.plan.expressions import SortKey, tokens_of
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import conjunction, expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frame_joins import beside, single_column
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.row_operations import input_frame
from lineage_service.plan.nodes import Filter, How, Join, NamedExpression, Node, OuterValues, Window, WithColumns

_HOW: dict[str, How] = {"inner": "inner", "": "inner", "left": "left", "leftouter": "left"}
_BASES = {("backward", True): ">=", ("backward", False): ">", ("forward", True): "<=", ("forward", False): "<"}


def compile_as_of_join(context: FrameContext, inner: Message, plan_id: int | None) -> Frame:
    """Both matched rows contribute. Which of several nearest rows is taken is not repeatable."""
    left = input_frame(context, inner, "left")
    right = beside(context, left, input_frame(context, inner, "right"))
    how = _HOW.get(inner.text("join_type").lower().replace("_", ""))
    if how is None:
        raise context.refuse(f"an as-of join of the kind {inner.text('join_type')} is not traced")
    at, other = inner.message("left_as_of"), inner.message("right_as_of")
    assert at is not None
    assert other is not None
    left_node, own = _column(context, left.node, Binder(context, (left,)).bind(at))
    right_node, their = _column(context, right.node, Binder(context, (right,)).bind(other))
    conditions = [*_within(context, inner, own, their), f"({_distance(inner, own, their)}) IS NOT NULL"]
    for name in inner.texts("using_columns"):
        pair = single_column(context, left, name), single_column(context, right, name)
        conditions.append(f"{pair[0].internal} = {pair[1].internal}")
    given = inner.message("join_expr")
    if given is not None:
        text, is_exact = expression_text(Binder(context, (left, right)).bind(given))
        if not is_exact:
            raise context.refuse("the condition of an as-of join has a function that no text of SQL can call")
        conditions.append(text)
    nearest, values = _nearest(context, left_node, right_node, conditions, _distance(inner, own, their))
    on = " AND ".join(f"{name} <=> {value}" for name, value in values.items())
    node = context.make(Join, "as_of", left_node, nearest, how, context.scalar(on), ())
    return Frame(node, left.columns + right.columns, (left, right), plan_id)


def _column(context: FrameContext, node: Node, bound: Message) -> tuple[Node, str]:
    """An expression over one row as a column."""
    node, text = context.text_in(node, bound, "as_of")
    if node.schema.find(text) is not None:
        return node, text
    name = context.names.fresh("as_of", "value")
    return context.make(WithColumns, "as_of", node, (NamedExpression(name, context.scalar(text)),)), name


def _within(context: FrameContext, inner: Message, own: str, their: str) -> list[str]:
    """Which right rows may be joined with a left row, as Spark's AsOfJoin has it."""
    direction, exact = inner.text("direction").lower() or "backward", inner.flag("allow_exact_matches")
    conditions = []
    if direction == "nearest":
        conditions += [] if exact else [f"NOT ({own} = {their})"]
    elif (direction, exact) in _BASES:
        conditions.append(f"{own} {_BASES[direction, exact]} {their}")
    else:
        raise context.refuse(f"an as-of join in the direction {direction} is not traced")
    tolerance = inner.message("tolerance")
    if tolerance is not None:
        text, is_exact = expression_text(Binder(context, ()).bind(tolerance))
        if not is_exact:
            raise context.refuse("the tolerance of an as-of join cannot be written as SQL")
        conditions += [f"{their} >= {own} - {text}"] if direction in ("backward", "nearest") else []
        conditions += [f"{their} <= {own} + {text}"] if direction in ("forward", "nearest") else []
    return conditions


def _distance(inner: Message, own: str, their: str) -> str:
    match inner.text("direction").lower():
        case "forward":
            return f"{their} - {own}"
        case "nearest":
            return f"CASE WHEN {own} > {their} THEN {own} - {their} ELSE {their} - {own} END"
    return f"{own} - {their}"


def _nearest(
    context: FrameContext, left: Node, right: Node, conditions: list[str], distance: str
) -> tuple[Node, Mapping[str, str]]:
    """The nearest right row for each of the left values that are read, and the columns that hold these."""
    condition = context.scalar(conjunction(conditions))
    read = [ref.parts[0] for ref in condition.columns if left.schema.find(ref.parts[0]) is not None]
    values = {name: context.names.fresh("outer", context.names.shown.get(name, name)) for name in dict.fromkeys(read)}
    below = context.project("values", left, {new: old for old, new in values.items()})
    distinct = context.make(OuterValues, "outer_values", below)
    on = context.scalar(with_names(condition.text, values))
    pairs: Node = context.make(Join, "candidates", distinct, right, "inner", on, ())
    far, place = context.names.fresh("as_of", "distance"), context.names.fresh("as_of", "place")
    measured = NamedExpression(far, context.scalar(with_names(distance, values)))
    pairs = context.make(WithColumns, "distance", pairs, (measured,))
    number = NamedExpression(place, context.expression("row_number()"))
    order = (SortKey(context.scalar(far)),)
    numbered = context.make(Window, "nearest", pairs, tuple(values.values()), order, (number,))
    return context.make(Filter, "nearest_row", numbered, context.scalar(f"{place} = 1")), values


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A text in which columns have other names."""
    pieces, end = [], 0
    for token in tokens_of(text):
        new = names.get(token.text)
        if new is not None and token.token_type.name != "STRING":
            pieces += [text[end : token.start], new]
            end = token.end + 1
    return "".join([*pieces, text[end:]])
