"""Groups of rows: keys and aggregate functions become columns of an Aggregate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lineage_service.plan.from_connect.bound_expressions import (
    aggregate_calls,
    as_column,
    children,
    column_expression,
    rewritten,
    window_expressions,
)
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import FrameColumn
from lineage_service.plan.from_connect.messages import Message, Value, kind_of
from lineage_service.plan.nodes import Aggregate, NamedExpression, Node


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key of the groups: the expression that the program names, the column it is from then on, and the text over the
    rows below by which they are grouped."""

    bound: Message
    column: FrameColumn
    text: str


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """The groups, and expressions over them in place of those over the rows."""

    node: Node
    expressions: tuple[Message, ...]


Special = Callable[[Message], "Message | None"]


def group_keys(
    context: FrameContext, node: Node, keys: Sequence[tuple[Message, str | None]]
) -> tuple[Node, list[GroupKey]]:
    """The keys as columns: those that are computed by a message are computed below the groups."""
    found = []
    for bound, name in keys:
        column = as_column(bound)
        if column is not None and (name is None or name == column.name):
            found.append(GroupKey(bound, column, column.internal))
            continue
        node, text = context.text_in(node, bound, "key")
        internal = context.names.fresh("key", name if name and name.isidentifier() else "value")
        context.note_type(internal, node, bound)
        found.append(GroupKey(bound, context.column(name, internal), text))
    return node, found


def group_rows(
    context: FrameContext,
    node: Node,
    keys: Sequence[GroupKey],
    readers: Sequence[Message],
    extra: Sequence[NamedExpression] = (),
    special: Special | None = None,
) -> GroupedRows:
    """Groups a node's rows by the keys, and by `extra`; aggregate functions of `readers` become measures. `special`
    gives an expression over the groups for calls that are no measures, such as grouping()."""
    key_columns = {_identity_of(key): column_expression(key.column) for key in keys}
    measures: dict[str, NamedExpression] = {}
    replaced: dict[int, Message] = {}
    for reader in readers:
        for call in aggregate_calls(reader):
            given = special(call) if special is not None else None
            if given is not None:
                replaced[id(call)] = given
                continue
            node, call_text = _measure_text(context, node, call)
            measure = measures.get(call_text)
            if measure is None:
                expression = context.expression(call_text)
                if expression.nests_aggregates:
                    raise context.refuse("an aggregate function stands inside another")
                measure = NamedExpression(context.names.fresh("agg", expression.function_names[0]), expression)
                measures[call_text] = measure
                context.note_type(measure.name, node, call)
            replaced[id(call)] = column_expression(context.column(None, measure.name))
    named = tuple(
        NamedExpression(name, context.scalar(text))
        for name, text in {key.column.internal: key.text for key in keys}.items()
    )
    if not named and not measures and not extra:
        measures[""] = NamedExpression(context.names.fresh("agg", "count"), context.expression("count(1)"))
    grouped = context.make(Aggregate, "group", node, (*named, *extra), tuple(measures.values()))

    def change(each: Message) -> Message | None:
        if id(each) in replaced:
            return replaced[id(each)]
        return key_columns.get(_comparable(each))

    readable = set(grouped.schema.names)
    expressions = tuple(rewritten(reader, change) for reader in readers)
    for each in expressions:
        _check_readable(context, each, readable)
    return GroupedRows(grouped, expressions)


def _measure_text(context: FrameContext, node: Node, call: Message) -> tuple[Node, str]:
    """An aggregate function as text; arguments that only their messages can compute are columns below."""
    if any(True for each in children(call) for _ in window_expressions(each)):
        raise context.refuse("a window function stands inside an aggregate function")
    text, is_exact = expression_text(call)
    if is_exact:
        return node, text
    kind, inner = kind_of(call)
    arguments: list[Value] = []
    for each in inner.messages("arguments"):
        node, argument = context.text_in(node, each, "argument")
        shown = as_column(each)
        is_same = shown is not None or expression_text(each)[1]
        arguments.append(each if is_same else column_expression(context.column(None, argument)))
    text, is_exact = expression_text(Message("Expression", {kind: inner.replaced(arguments=tuple(arguments))}))
    if not is_exact:
        raise context.refuse("an aggregate function of an expression that has no text of SQL")
    return node, text


def _check_readable(context: FrameContext, bound: Message, readable: set[str]) -> None:
    column = as_column(bound)
    if column is not None:
        if column.internal not in readable:
            raise context.refuse(f"column '{column.name}' is neither grouped nor inside an aggregate function")
        return
    kind, inner = kind_of(bound)
    if kind == "bound_text" and not inner.get("function"):
        for ref in context.expression(inner.text("text")).columns:
            holes = inner.get("holes")
            if ref.parts[0] not in readable and not (isinstance(holes, dict) and ref.parts[0] in holes):
                shown = context.names.with_shown(str(ref))
                raise context.refuse(f"column '{shown}' is neither grouped nor inside an aggregate function")
    for each in children(bound):
        _check_readable(context, each, readable)


def _comparable(bound: Message) -> str:
    """Equal for expressions that are the same; Spark compares them without names and places."""
    column = as_column(bound)
    return f"column {column.identity}" if column is not None else expression_text(bound)[0]


def _identity_of(key: GroupKey) -> str:
    return _comparable(key.bound)
