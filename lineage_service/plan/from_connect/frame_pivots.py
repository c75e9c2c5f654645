"""groupBy().pivot(): an aggregate with a filter for each value."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_connect.bound_expressions import (
    aggregate_calls,
    as_column,
    column_expression,
    function_name,
    rewritten,
    text_expression,
)
from lineage_service.plan.from_connect.expression_binding import Binder
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frame_groups import group_keys
from lineage_service.plan.from_connect.frames import Frame
from lineage_service.plan.from_connect.literals import literal_kind, literal_name, literal_text
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.select_lists import SelectEntry
from lineage_service.plan.from_sql.expression_texts import operand
from lineage_service.plan.from_sql.pivots import COUNTS, FUNCTIONS, LISTS, NUMBERS
from lineage_service.plan.nodes import Aggregate, NamedExpression, WithColumns


def compile_pivot(
    context: FrameContext,
    below: Frame,
    inner: Message,
    keys: Sequence[SelectEntry],
    measures: Sequence[SelectEntry],
    plan_id: int | None,
) -> Frame:
    """The keys, and for each value a column of each measure, over the rows that have the value."""
    pivot = inner.message("pivot")
    column = pivot.message("col") if pivot is not None else None
    if pivot is None or column is None or not pivot.messages("values"):
        raise context.refuse("pivot() without values: which columns there are depends on the data; list the values")
    node, pivoted = context.text_in(below.node, Binder(context, (below,)).bind(column), "pivot")
    type_ = context.types.get(pivoted) or context.column_type(node, pivoted)
    node, grouped = group_keys(context, node, [(each.bound, each.names[0] if each.names else None) for each in keys])
    counts = _has_count(context, below, measures)
    found: dict[str, NamedExpression] = {}
    computed: list[NamedExpression] = []
    columns = [key.column for key in grouped]

    def measure(text: str, what: str) -> str:
        if text not in found:
            found[text] = NamedExpression(context.names.fresh("pivot", what), context.expression(text))
        return found[text].name

    for value in pivot.messages("values"):
        condition, label = _condition(context, pivoted, type_, value), _label(context, value)
        row_count = measure(f"count(1) FILTER (WHERE {condition})", "rows") if counts else None
        for each in measures:
            if len(measures) > 1 and not each.names:
                raise context.refuse("pivot(): a measure whose name is not known here: use alias(…)")
            name = label if len(measures) == 1 else f"{label}_{each.names[0]}"
            replaced = {
                id(call): column_expression(
                    context.column(None, measure(f"{_call_text(context, call)} FILTER (WHERE {condition})", "value"))
                )
                for call in aggregate_calls(each.bound)
            }
            bound = rewritten(each.bound, lambda one, new=replaced: new.get(id(one)))  # type: ignore[misc]
            if row_count is not None:
                bound = text_expression(f"CASE WHEN {row_count} > 0 THEN {expression_text(bound)[0]} END")
            shown = as_column(bound)
            if shown is not None:
                columns.append(context.column(name, shown.internal))
                continue
            made = context.column(name, context.names.fresh("pivot", "column"))
            computed.append(NamedExpression(made.internal, context.value(bound)))
            columns.append(made)
    by = tuple(
        NamedExpression(name, context.scalar(text))
        for name, text in {key.column.internal: key.text for key in grouped}.items()
    )
    node = context.make(Aggregate, "pivot", node, by, tuple(found.values()))
    if computed:
        node = context.make(WithColumns, "pivoted", node, tuple(computed))
    return Frame(node, tuple(columns), (below,), plan_id)


def _call_text(context: FrameContext, call: Message) -> str:
    text, is_exact = expression_text(call)
    if not is_exact:
        raise context.refuse("pivot(): a measure has a function that no text of SQL can call")
    return text


def _has_count(context: FrameContext, below: Frame, measures: Sequence[SelectEntry]) -> bool:
    """Whether a count is among the measures: where there is no row of a value, Spark gives null for it, and not 0; but
    not beside measures whose values it does not pivot in two steps."""
    names: set[str] = set()
    has_others = False
    for each in measures:
        calls = list(aggregate_calls(each.bound))
        if not calls:
            raise context.refuse("pivot() needs aggregate functions")
        for call in calls:
            name = function_name(call) or ""
            if name not in FUNCTIONS:
                raise context.refuse(f"{name}() in pivot() is not traced")
            names.add(name)
            arguments = kind_of(call)[1].messages("arguments")
            column = as_column(arguments[0]) if arguments else None
            kind = family(context.type_of(below, column)) if column is not None else None
            has_others = has_others or (name not in NUMBERS | LISTS and kind != "number")
    if not names & COUNTS or names & LISTS:
        return False
    if has_others:
        raise context.refuse("min() and max() beside count() in pivot() are traced only for numbers")
    return True


def _condition(context: FrameContext, column: str, type_: str | None, value: Message) -> str:
    """Spark compares in the type of the column."""
    text, kind = literal_text(value), literal_kind(value)[0]
    if text is None or (type_ is None and kind not in ("string", "integer", "long", "boolean", "null")):
        raise context.refuse("pivot(): a value cannot be compared before the type of its column is known")
    return f"{operand(column)} <=> {text if type_ is None else f'CAST({text} AS {type_})'}"


def _label(context: FrameContext, value: Message) -> str:
    name = "null" if literal_kind(value)[0] == "null" else literal_name(value)
    if name is None:
        raise context.refuse("pivot(): the name that Spark gives a value is not known here")
    return name.removeprefix("DATE ").strip("'") if literal_kind(value)[0] == "date" else name
