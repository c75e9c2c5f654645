"""Refuses measures of windows that Spark, or exact lineage, does not support, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lineage_service.plan.expressions import Expression, ExpressionError, shorten_text
from lineage_service.plan.functions import AGGREGATES, VOLATILE, WINDOW_ONLY
from lineage_service.plan.schema import ColumnError
from lineage_service.plan.window_calls import WindowCall

# Ranking and offset functions: Spark refuses them over a window without an order.
NEED_AN_ORDER = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
    | {"lag", "lead", "nth_value", "counter_diff"}
)

# Aggregates with an order of their own: Spark takes neither `order_by` nor `frame` beside it.
_ORDERED_INSIDE = frozenset({"median", "percentile_cont", "percentile_disc"})

# Tell of grouping sets, which neither an aggregate step nor a window has.
GROUPING = frozenset({"grouping", "grouping_id"})

# The place of an argument that must be a constant, and whether it counts rows.
_CONSTANTS = {"lag": 1, "lead": 1, "nth_value": 1, "ntile": 0}


def window_call_faults(name: str, call: WindowCall, *, ordered: bool, framed: bool) -> Iterator[ColumnError]:
    """The faults of one function of the measure `name`, in a window with or without an order and a frame."""
    what = f"measure '{name}': "
    if call.name in NEED_AN_ORDER and not ordered:
        yield ColumnError(f"{what}{call.name}() needs an order", "add `order_by` to the step")
    if call.name in GROUPING:
        yield ColumnError(f"{what}{call.name}() refers to grouping sets, and a window has none")
    if call.is_distinct:
        hint = "count or sum distinct values in a step with `op: aggregate`, and join it"
        yield ColumnError(f"{what}Spark takes no DISTINCT over a window", hint)
        return
    inside = call.name in _ORDERED_INSIDE or (call.has_order and call.name in ("listagg", "string_agg"))
    if inside and (ordered or framed):
        key = "order_by" if ordered else "frame"
        hint = "give it a step of its own, with partition_by alone"
        yield ColumnError(f"{what}Spark takes no `{key}` beside {call.name}(), which has an order of its own", hint)
    arguments = list(_parse_arguments(call.arguments))
    nested = [each for one in arguments for each in one.function_names if each in AGGREGATES | WINDOW_ONLY]
    if nested:
        hint = "compute the inner one in a step of its own, before this one"
        yield ColumnError(f"{what}{nested[0]}() stands inside of {call.name}()", hint)
    yield from _constant_faults(what, call)
    yield from _nondeterministic_skip_faults(what, call, arguments)


def _parse_arguments(arguments: Sequence[str]) -> Iterator[Expression]:
    """Arguments that are expressions, without those such as `*`."""
    for text in arguments:
        try:
            expression = Expression(text)
            _ = expression.function_names, expression.columns
        except ExpressionError:
            continue
        yield expression


def _constant_faults(what: str, call: WindowCall) -> Iterator[ColumnError]:
    place = _CONSTANTS.get(call.name)
    if place is None or len(call.arguments) <= place:
        return
    text = call.arguments[place]
    for expression in _parse_arguments([text]):
        if expression.columns or expression.is_volatile:
            which = "its number of groups" if call.name == "ntile" else "its offset"
            yield ColumnError(
                f"{what}{call.name}() takes a constant as {which}, and '{shorten_text(text)}' is none",
                "write a number, such as 2",
            )
        elif call.name in ("lag", "lead") and _is_no_count(expression):
            yield ColumnError(
                f"{what}the offset of {call.name}() is a whole number, and '{shorten_text(text)}' is none",
                "write a number, such as 2",
            )


def _is_no_count(expression: Expression) -> bool:
    """Whether a constant is certainly no INT. Computed values are left to Spark."""
    kinds = [token.token_type.name for token in expression.tokens if token.token_type.name != "DASH"]
    if len(kinds) != 1:
        return False
    bare = expression.text.replace(" ", "").removeprefix("-")
    return kinds[0] in ("STRING", "NULL", "TRUE", "FALSE") or (kinds[0] == "NUMBER" and not bare.isdecimal())


def _nondeterministic_skip_faults(
    what: str, call: WindowCall, arguments: Sequence[Expression]
) -> Iterator[ColumnError]:
    """A function that ignores nulls selects rows by a value, which must be repeatable."""
    passes_over = (call.ignores_nulls and call.name in ("lag", "lead")) or call.name == "counter_diff"
    volatile = sorted(VOLATILE & set(arguments[0].function_names)) if passes_over and arguments else []
    if volatile:
        yield ColumnError(
            f"{what}the rows that {call.name}() passes over cannot be traced, since {volatile[0]}() gives another "
            "value each time",
            "make the value a column first, with a step `with_columns`",
        )
