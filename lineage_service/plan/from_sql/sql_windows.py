"""Window functions of a SELECT: window nodes whose measures are columns from then on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean
from lineage_service.plan.expressions import Expression, ExpressionError, SortKey
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, window_nodes
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of, refuse
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import NamedExpression, Window, WithColumns
from lineage_service.plan.window_calls import WindowCall, window_calls
from lineage_service.plan.window_frames import WindowFrame, parse_frame
from lineage_service.plan.window_measures import NEED_AN_ORDER
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp


def add_windows(block: BlockState, select: exp.Expr, readers: Iterable[exp.Expr]) -> None:
    """Computes the window functions of all `readers`: a window node for each partitioning, order and frame.

    The nodes stand on top of each other, and yet are all over the same rows: see `Window.beside`.
    """
    named = {each.name.lower(): each for each in select.args.get("windows") or ()}
    found = list({id(window): window for reader in readers for window in window_nodes(reader)}.values())
    if not found:
        return
    texts = replace(block.texts)  # as it is before the first window is computed
    functions = [_WindowFunction.read(block, texts, window, named) for window in found]
    beside: tuple[str, ...] = ()
    columns = _partition_columns(block, functions)
    for number, group in enumerate(_groups(functions)):
        measures: dict[str, NamedExpression] = {}
        for function in group:
            measure = measures.get(function.text)
            if measure is None:
                name = block.context.names.fresh("window", function.call.name)
                measure = measures[function.text] = NamedExpression(name, function.expression)
            block.texts.computed[id(function.window)] = measure.name
        first = group[0]
        frame = next((each.frame for each in group if each.call.takes_a_frame), None)
        order_by = tuple(
            SortKey(block.context.scalar(text, first.window), descending, nulls_first)
            for text, descending, nulls_first in first.order_by
        )
        partition_by = (*block.carried, *(columns[text] for text in first.partition_by))
        node = block.context.make(
            Window, "window" if number == 0 else f"window_{number + 1}", first.window, block.node, partition_by,
            order_by, tuple(measures.values()), _frame(block, first.window, frame), beside,
        )  # fmt: skip
        block.node, beside = node, (*beside, node.id)


@dataclass(frozen=True, slots=True)
class _WindowFunction:
    """A function and what stands behind its OVER, as text over the plan's columns."""

    window: exp.Window
    text: str
    expression: Expression
    call: WindowCall
    partition_by: tuple[str, ...]
    order_by: tuple[tuple[str, bool, bool], ...]
    frame: str | None

    @classmethod
    def read(
        cls, block: BlockState, texts: ExpressionTexts, window: exp.Window, named: dict[str, exp.Expr]
    ) -> _WindowFunction:
        if any(inner is not window for inner in window_nodes(window)):
            raise refuse(window, "a window function inside another", "compute the inner one in a subquery")
        partition_by, order_by, frame = _definition(block, texts, window, named)
        text = function_text(block.context, texts, window)
        expression = block.context.expression(text, window)
        calls = window_calls(expression)
        if len(calls) != 1 or expression.has_over_clause:
            raise refuse(window, "this function cannot be used with OVER")
        call = calls[0]
        if call.name in NEED_AN_ORDER and not order_by:
            raise refuse(window, f"{call.name}() needs an order", "write it: OVER (ORDER BY …)")
        if frame is not None and not call.takes_a_frame:
            if call.name not in _RANKS or frame.upper().split() != _RUNNING_FRAME:
                raise refuse(window, f"{call.name}() does not take a frame", "omit the frame")
            frame = None
        return cls(window, text, expression, call, partition_by, order_by, frame)


# Spark's frame for ranking functions; it may also be written out.
_RUNNING_FRAME = ["ROWS", "BETWEEN", "UNBOUNDED", "PRECEDING", "AND", "CURRENT", "ROW"]
_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "ntile", "cume_dist"})


def _groups(functions: Sequence[_WindowFunction]) -> list[list[_WindowFunction]]:
    """Functions that one node computes: of one partitioning and order, and those that take a frame of one frame."""
    groups: dict[object, list[_WindowFunction]] = {}
    later = []
    for each in functions:
        if each.call.takes_a_frame:
            groups.setdefault((each.partition_by, each.order_by, each.frame), []).append(each)
        else:
            later.append(each)
    for each in later:
        same = (key for key in groups if isinstance(key, tuple) and key[:2] == (each.partition_by, each.order_by))
        groups.setdefault(next(same, (each.partition_by, each.order_by, None)), []).append(each)
    return list(groups.values())


def _definition(
    block: BlockState, texts: ExpressionTexts, window: exp.Window, named: dict[str, exp.Expr]
) -> tuple[tuple[str, ...], tuple[tuple[str, bool, bool], ...], str | None]:
    """PARTITION BY, ORDER BY and frame: the window's own, or those of the WINDOW clause that it names."""
    defined: exp.Expr = window
    seen: set[str] = set()
    while (name := defined.args.get("alias")) is not None and (defined is window or name.name.lower() not in seen):
        if any(defined.args.get(key) for key in ("partition_by", "order", "spec")):
            raise refuse(window, "a window that extends a named one is not supported in sql steps", "write it out")
        if name.name.lower() not in named:
            known = [each.name for each in named.values()]
            hint = did_you_mean(name.name, known) or "define it: WINDOW w AS (…)"
            raise refuse(window, f"unknown window '{name.name}'", hint)
        seen.add(name.name.lower())
        defined = named[name.name.lower()]
    order = defined.args.get("order")
    keys = [
        (texts.text(each.this), bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for each in (order.expressions if order is not None else ())
    ]
    partition = tuple(texts.text(each) for each in defined.args.get("partition_by") or ())
    return partition, tuple(keys), frame_text(block.context, defined)


def frame_text(context: SqlContext, defined: exp.Expr) -> str | None:
    """ROWS or RANGE and what follows, up to the parenthesis that closes the window."""
    spec = defined.args.get("spec")
    if spec is None:
        return None
    before = [each.meta[SPAN][1] for each in defined.args.get("partition_by") or ()]
    order = defined.args.get("order")
    before += [each.this.meta[SPAN][1] for each in order.expressions] if order is not None else []
    start = max(before, default=offset_of(defined))
    depth, first = 0, None
    for token in context.tokens:
        if token.start < start:
            continue
        if first is None:
            if token.text.lower() in ("rows", "range"):
                first = token.start
            continue
        depth += (token.token_type.name == "L_PAREN") - (token.token_type.name == "R_PAREN")
        if depth < 0:
            return context.sql.text[first : token.start].strip()
    raise refuse(defined, "cannot parse the frame of this window")


def _frame(block: BlockState, place: exp.Expr, text: str | None) -> WindowFrame | None:
    if text is None:
        return None
    try:
        return parse_frame(text, block.context.sql.position(offset_of(place)))
    except ExpressionError as error:
        raise SqlRefusal(error.message, offset_of(place), error.hint) from None


def function_text(context: SqlContext, texts: ExpressionTexts, window: exp.Window) -> str:
    """The function without its OVER."""
    start, end = window.meta[SPAN]
    depth = 0
    for token in context.tokens_between(start, end):
        depth += (token.token_type.name == "L_PAREN") - (token.token_type.name == "R_PAREN")
        if depth == 0 and token.token_type.name == "OVER":
            return texts.text_between(start, token.start, [window.this])
    raise refuse(window, "this function cannot be used with OVER")


def _partition_columns(block: BlockState, functions: Sequence[_WindowFunction]) -> dict[str, str]:
    """PARTITION BY as columns, by their texts: what is computed becomes a column, below all windows."""
    names: dict[str, str] = {}
    computed = []
    for function in functions:
        for text in function.partition_by:
            if text in names:
                continue
            names[text] = text
            if block.node.schema.find(text) is None:
                names[text] = block.context.names.fresh("part", "key")
                computed.append(NamedExpression(names[text], block.context.scalar(text, function.window)))
    if computed:
        block.node = block.context.make(WithColumns, "partition", functions[0].window, block.node, tuple(computed))
    return names
