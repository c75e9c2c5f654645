"""Window expressions: window nodes whose measures are columns from then on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lineage_service.plan.expressions import ExpressionError, SortKey
from lineage_service.plan.from_connect.bound_expressions import (
    column_expression,
    literal_value,
    rewritten,
    window_expressions,
)
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.nodes import NamedExpression, Node, Window, WithColumns
from lineage_service.plan.window_calls import WindowCall, window_calls
from lineage_service.plan.window_frames import WindowFrame, parse_frame
from lineage_service.plan.window_measures import NEED_AN_ORDER


def add_windows(context: FrameContext, node: Node, readers: Sequence[Message]) -> tuple[Node, tuple[Message, ...]]:
    """Computes the window functions of all readers: a node for each partitioning, order and frame, all over the same
    rows. The readers, with columns in place of the windows."""
    found = [window for reader in readers for window in window_expressions(reader)]
    if not found:
        return node, tuple(readers)
    functions = []
    for window in found:
        node, function = _read(context, node, window)
        functions.append(function)
    node = _with_partitions(context, node, functions)
    replaced: dict[int, Message] = {}
    beside: tuple[str, ...] = ()
    for group in _groups(functions):
        measures: dict[str, NamedExpression] = {}
        for function in group:
            measure = measures.get(function.text)
            if measure is None:
                name = context.names.fresh("window", function.call.name)
                measure = measures[function.text] = NamedExpression(name, context.expression(function.text))
            context.note_type(measure.name, node, function.window)
            replaced[id(function.window)] = column_expression(context.column(None, measure.name))
        first = group[0]
        frame = next((each.frame for each in group if each.call.takes_a_frame), None)
        keys = tuple(SortKey(context.scalar(text), *rest) for text, *rest in first.order_by)
        partition = tuple(dict.fromkeys(first.partition_by))
        made = context.make(
            Window, "window", node, partition, keys, tuple(measures.values()), _frame(context, frame), beside
        )
        node, beside = made, (*beside, made.id)
    return node, tuple(rewritten(reader, lambda each: replaced.get(id(each))) for reader in readers)


@dataclass(slots=True)
class _FrameWindow:
    """A function and its window, as text over the columns of the plan."""

    window: Message
    text: str
    call: WindowCall
    partition_by: list[str]
    order_by: tuple[tuple[str, bool, bool], ...]
    frame: str | None

    def same_window(self, other: _FrameWindow) -> bool:
        return self.partition_by == other.partition_by and self.order_by == other.order_by


def _read(context: FrameContext, node: Node, window: Message) -> tuple[Node, _FrameWindow]:
    _, inner = kind_of(window)
    function = inner.message("window_function")
    assert function is not None
    parts = (function, *inner.messages("partition_spec"), *inner.messages("order_spec"))
    if any(True for each in parts for _ in window_expressions(each)):
        raise context.refuse("a window function stands inside another")
    node, text = _function_text(context, node, function)
    partition = []
    for each in inner.messages("partition_spec"):
        node, key = context.text_in(node, each, "part")
        partition.append(key)
    order = []
    for each in inner.messages("order_spec"):
        child = each.message("child")
        assert child is not None
        node, key = context.text_in(node, child, "order")
        order.append((key, *directions(each)))
    calls = window_calls(context.expression(text))
    if len(calls) != 1:
        raise context.refuse(f"this is no window function: {context.names.with_shown(text)}")
    call, frame = calls[0], _frame_text(context, inner)
    if call.name in NEED_AN_ORDER and not order:
        raise context.refuse(f"{call.name}() needs an order: Window.orderBy(…)")
    if frame is not None and not call.takes_a_frame:
        if call.name not in _RANKS or frame.upper().split() != _RUNNING_FRAME:
            raise context.refuse(f"{call.name}() does not take a frame")
        frame = None
    return node, _FrameWindow(window, text, call, partition, tuple(order), frame)


# Spark's frame for ranking functions; it may also be given.
_RUNNING_FRAME = ["ROWS", "BETWEEN", "UNBOUNDED", "PRECEDING", "AND", "CURRENT", "ROW"]
_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "ntile", "cume_dist"})


def directions(order: Message) -> tuple[bool, bool]:
    """Whether a sort order is descending, and whether its nulls are first."""
    descending = order.text("direction") == "SORT_DIRECTION_DESCENDING"
    nulls = order.text("null_ordering")
    return descending, (not descending) if nulls in ("", "SORT_NULLS_UNSPECIFIED") else nulls == "SORT_NULLS_FIRST"


def _function_text(context: FrameContext, node: Node, function: Message) -> tuple[Node, str]:
    text, is_exact = expression_text(function)
    if is_exact:
        return node, text
    kind, inner = kind_of(function)
    if kind != "unresolved_function":
        raise context.refuse("a user-defined function over a window: which rows a value comes from is not known")
    arguments = []
    for each in inner.messages("arguments"):
        if expression_text(each)[1]:
            arguments.append(each)
            continue
        node, name = context.text_in(node, each, "argument")
        arguments.append(column_expression(context.column(None, name)))
    text, _ = expression_text(Message("Expression", {kind: inner.replaced(arguments=tuple(arguments))}))
    return node, text


def _frame_text(context: FrameContext, inner: Message) -> str | None:
    if "frame" in inner:
        return inner.text("frame")
    spec = inner.message("frame_spec")
    if spec is None:
        return None
    unit = "ROWS" if spec.text("frame_type") == "FRAME_TYPE_ROW" else "RANGE"
    bounds = [_bound_text(context, spec.message(name), name) for name in ("lower", "upper")]
    return f"{unit} BETWEEN {bounds[0]} AND {bounds[1]}"


def _bound_text(context: FrameContext, bound: Message | None, name: str) -> str:
    if bound is None or bound.flag("unbounded"):
        return f"UNBOUNDED {'PRECEDING' if name == 'lower' else 'FOLLOWING'}"
    if bound.flag("current_row"):
        return "CURRENT ROW"
    value = bound.message("value")
    assert value is not None
    number = literal_value(value)
    if not isinstance(number, int | float) or isinstance(number, bool):
        text, is_exact = expression_text(value)
        if not is_exact:
            raise context.refuse("a bound of a window's frame cannot be traced")
        return f"{text} FOLLOWING"
    if number == 0:
        return "CURRENT ROW"
    return f"{abs(number)} {'PRECEDING' if number < 0 else 'FOLLOWING'}"


def _groups(functions: Sequence[_FrameWindow]) -> list[list[_FrameWindow]]:
    """Functions that one node computes: of one window, and those that take a frame of one frame."""
    groups: list[list[_FrameWindow]] = []
    for each in sorted(functions, key=lambda one: not one.call.takes_a_frame):
        for group in groups:
            frames = {one.frame for one in group if one.call.takes_a_frame}
            if group[0].same_window(each) and (not each.call.takes_a_frame or frames <= {each.frame}):
                group.append(each)
                break
        else:
            groups.append([each])
    return groups


def _frame(context: FrameContext, text: str | None) -> WindowFrame | None:
    if text is None:
        return None
    try:
        return parse_frame(text, context.here or context.position)
    except ExpressionError as error:
        raise context.refuse(error.message) from None


def _with_partitions(context: FrameContext, node: Node, functions: Sequence[_FrameWindow]) -> Node:
    """Partitions as columns: what is computed becomes one, below all windows."""
    names: dict[str, str] = {}
    computed = []
    for text in (text for function in functions for text in function.partition_by):
        if text in names:
            continue
        names[text] = text
        if node.schema.find(text) is None:
            names[text] = context.names.fresh("part", "key")
            computed.append(NamedExpression(names[text], context.scalar(text)))
    for function in functions:
        function.partition_by = [names[text] for text in function.partition_by]
    return context.make(WithColumns, "partition", node, tuple(computed)) if computed else node
