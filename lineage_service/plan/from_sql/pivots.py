"""PIVOT as an aggregate with a filter for each value, and UNPIVOT as rows that each take other columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.plan.call_arguments import family
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.from_sql.block_state import BlockState, columns_read
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, aggregate_calls, call_name
from lineage_service.plan.from_sql.from_entry import FromEntry
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.repeated_rows import numbers_below, repeat_rows
from lineage_service.plan.from_sql.scopes import BoundColumn, ScopedRelation
from lineage_service.plan.from_sql.spark_names import name_in_spark
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import Aggregate, Filter, NamedExpression, Node

if TYPE_CHECKING:
    from sqlglot import exp

NUMBERS = frozenset(
    {"sum", "avg", "mean", "count", "stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop",
     "skewness", "kurtosis", "count_if", "median"}
)  # fmt: skip
LISTS = frozenset({"collect_list", "collect_set", "array_agg"})
FUNCTIONS = NUMBERS | LISTS | {"min", "max"}
COUNTS = frozenset({"count", "count_if"})

# Parts of a PIVOT or UNPIVOT that are compiled, and what the parser derives from them; all others are refused by name.
_PARTS_OF_PIVOT = frozenset(
    ["expressions", "fields", "unpivot", "alias", "columns", "include_nulls", "value_columns_first",
     "pivot_column_naming"]
)  # fmt: skip
_NAMES_OF_PARTS = {"group": "GROUP BY", "default_on_null": "DEFAULT ON NULL"}


def pivoted(context: SqlContext, entry: FromEntry, pivot: exp.Expr) -> FromEntry:
    """An entry of FROM behind its PIVOT or UNPIVOT clause."""
    for key, value in pivot.args.items():
        if value and key not in _PARTS_OF_PIVOT:
            part = _NAMES_OF_PARTS.get(key, key.strip("_").upper())
            raise refuse(pivot, f"{part} in PIVOT is not supported in sql steps")
    if entry.carried:
        raise refuse(pivot, "PIVOT of a derived table that reads the enclosing query is not supported in sql steps")
    if len(pivot.args.get("fields") or ()) != 1:
        raise refuse(pivot, "this form of PIVOT is not supported in sql steps")
    node, bound = (_unpivot if pivot.args.get("unpivot") else _pivot)(context, entry, pivot)
    alias = pivot.args.get("alias")
    given = alias.args.get("columns") if alias is not None else None
    if given:
        if len(given) != len(bound):
            raise refuse(pivot, f"{len(given)} names for {len(bound)} columns")
        bound = [replace(column, name=name.name) for column, name in zip(bound, given, strict=True)]
    if alias is not None and alias.this is not None:
        return FromEntry(node, (ScopedRelation(alias.name, tuple(bound)),), tuple(bound))
    return FromEntry(node, _relations_behind(entry, bound), tuple(bound))


def _relations_behind(entry: FromEntry, bound: Sequence[BoundColumn]) -> tuple[ScopedRelation, ...]:
    """Without an alias of its own, columns that the clause keeps have their qualifiers, and its new ones have none."""
    left = {column.internal for column in bound}
    kept = tuple(
        ScopedRelation(each.alias, tuple(column for column in each.columns if column.internal in left))
        for each in entry.relations
    )
    qualified = {column.internal for each in kept for column in each.columns}
    return (*kept, ScopedRelation(None, tuple(column for column in bound if column.internal not in qualified)))


def _pivot(context: SqlContext, entry: FromEntry, pivot: exp.Expr) -> tuple[Node, list[BoundColumn]]:
    from sqlglot import exp

    field = pivot.args["fields"][0]
    if not isinstance(field, exp.In) or not field.expressions:
        raise refuse(pivot, "PIVOT needs the values of its column", "list them: FOR … IN (…)")
    block = BlockState(context, {}, entry.scope(None), entry.node, ExpressionTexts(context, entry.scope(None)))
    on = list(field.this.expressions) if isinstance(field.this, exp.Tuple) else [field.this]
    aggregates = [
        (each.this, each.alias) if isinstance(each, exp.Alias) else (each, None) for each in pivot.expressions
    ]
    inside = (*on, *(aggregate for aggregate, _ in aggregates))
    read = frozenset().union(*(columns_read(each, block.scope)[0] for each in inside))
    keys = [column for column in entry.visible if column.internal not in read]
    pivots = [block.texts.text(each) for each in on]
    measures: list[NamedExpression] = []
    shown: dict[str, str] = {column.internal: column.internal for column in keys}
    bound = list(keys)
    has_count = _check_aggregates(context, block, aggregates)
    for value in field.expressions:
        alias = value.alias if isinstance(value, exp.PivotAlias) else None
        constant = value.this if isinstance(value, exp.PivotAlias) else value
        condition = _equals(block, pivots, constant)
        row_count = context.names.fresh("pivot", "rows")
        if has_count:
            measures.append(
                NamedExpression(row_count, context.expression(f"count(1) FILTER (WHERE {condition})", value))
            )
        for aggregate, name in aggregates:
            computed = {}
            for call in aggregate_calls(context, aggregate):
                measure = context.names.fresh("pivot", call_name(context, call))
                text = f"{block.texts.text(call)} FILTER (WHERE {condition})"
                measures.append(NamedExpression(measure, context.expression(text, call)))
                computed[id(call)] = measure
            text = replace(block.texts, computed=computed, readable=frozenset()).text(aggregate)
            text = f"CASE WHEN {row_count} > 0 THEN {text} END" if has_count else text
            label = alias or _label(constant)
            if len(aggregates) > 1:
                shown_name = name or name_in_spark(block, aggregate)
                if shown_name is None:
                    raise refuse(aggregate, "this aggregate of PIVOT has no name", "give it one with AS")
                label = f"{label}_{shown_name}"
            column = BoundColumn(label, context.names.fresh("pivot", "value"))
            shown[column.internal] = text
            bound.append(column)
    named = tuple(NamedExpression(key.internal, context.scalar(key.internal, pivot)) for key in keys)
    node = context.make(Aggregate, "pivot", pivot, entry.node, named, tuple(measures))
    return context.project("pivoted", pivot, node, shown), bound


def _check_aggregates(
    context: SqlContext, block: BlockState, aggregates: Sequence[tuple[exp.Expr, str | None]]
) -> bool:
    """Whether a count is among the aggregates: if a group has no row of a value, Spark gives null for it, and not 0.

    SqlRefusal for functions other than `FUNCTIONS`, and for a count beside aggregates that may not be numbers.
    """
    from sqlglot import exp

    names: set[str] = set()
    for aggregate, _ in aggregates:
        calls = list(aggregate_calls(context, aggregate))
        if not calls:
            raise refuse(aggregate, "PIVOT needs an aggregate function")
        for call in calls:
            name = call_name(context, call) or ""
            if name not in FUNCTIONS:
                hint = "use sum, avg, min, max, count, stddev, variance or collect_list"
                raise refuse(call, f"{name}() in PIVOT is not supported in sql steps", hint)
            names.add(name)
        inside = {id(each) for call in calls for each in call.walk()}
        plain = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Paren, exp.Literal, exp.Neg)
        for each in aggregate.walk():
            if id(each) not in inside and not isinstance(each, plain):
                raise refuse(aggregate, "PIVOT is supported only with aggregate functions and arithmetic of them")
    if names & LISTS:
        return False  # beside a list, Spark counts no row as 0
    if names & COUNTS:
        for aggregate, _ in aggregates:
            for call in aggregate_calls(context, aggregate):
                if call_name(context, call) in NUMBERS:
                    continue
                kind = column_type(block.node.schema, block.texts.text(call.this)) if call.this is not None else None
                if family(kind) != "number":
                    raise refuse(call, "min() and max() beside count() in PIVOT are supported only for numbers")
    return bool(names & COUNTS)


def _equals(block: BlockState, pivots: Sequence[str], constant: exp.Expr) -> str:
    from sqlglot import exp

    values = list(constant.expressions) if isinstance(constant, exp.Tuple) else [constant]
    if len(values) != len(pivots):
        raise refuse(constant, f"PIVOT compares {len(pivots)} columns with {len(values)} values")
    for value in values:
        if any(value.find_all(exp.Column)):
            raise refuse(value, "the values of PIVOT are constants", "texts stand in single quotes")
    return " AND ".join(_equal(block, one, value) for one, value in zip(pivots, values, strict=True))


def _equal(block: BlockState, column: str, value: exp.Expr) -> str:
    """Spark compares in the type of the column: a text '02' is not equal to the value 2."""
    from sqlglot import exp

    text = ExpressionTexts(block.context, block.scope).text(value)
    type_ = column_type(block.node.schema, column)
    if type_ is not None:
        kind = family(type_)
        is_same = (kind == "text" and value.is_string) or (kind == "number" and _whole_number(value))
        return f"{column} <=> {text if is_same or isinstance(value, exp.Null) else f'CAST({text} AS {type_})'}"
    if value.is_string or isinstance(value, exp.Null):
        return f"{column} <=> {text}"
    if isinstance(value, exp.Literal | exp.Neg) and not _whole_number(value):
        raise refuse(value, "PIVOT compares a number with decimals with a column whose type is not known here",
                     "write the value as a text, as in '1.5'")  # fmt: skip
    as_text = f"CAST({column} AS STRING) <=> CAST({text} AS STRING)"
    return f"CASE WHEN typeof({column}) LIKE 'string%' THEN {as_text} ELSE {column} <=> {text} END"


def _whole_number(value: exp.Expr) -> bool:
    from sqlglot import exp

    inner = value.this if isinstance(value, exp.Neg) else value
    return isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdecimal()


def _label(constant: exp.Expr) -> str:
    """The name that Spark makes of a value."""
    from sqlglot import exp

    if isinstance(constant, exp.Tuple):
        return "{" + ", ".join(_label(each) for each in constant.expressions) + "}"
    if isinstance(constant, exp.Neg) and isinstance(constant.this, exp.Literal) and constant.this.name.isdecimal():
        return f"-{constant.this.name}"
    if isinstance(constant, exp.Literal) and (constant.is_string or constant.name.isdecimal()):
        return constant.name
    if isinstance(constant, exp.Cast) and constant.is_type("date") and _is_plain_date(constant.this):
        return str(constant.this.name)
    if isinstance(constant, exp.Null):
        return "null"
    if isinstance(constant, exp.Boolean):
        return "true" if constant.this else "false"
    raise refuse(constant, "this value of PIVOT has no name", "give it one with AS")


def _is_plain_date(value: exp.Expr) -> bool:
    """Whether a text is a date as Spark prints it."""
    return value.is_string and re.fullmatch(r"\d{4}-\d\d-\d\d", value.name) is not None


def _unpivot(context: SqlContext, entry: FromEntry, pivot: exp.Expr) -> tuple[Node, list[BoundColumn]]:
    from sqlglot import exp

    field = pivot.args["fields"][0]
    texts = ExpressionTexts(context, entry.scope(None))
    first = pivot.expressions[0]
    named = first.expressions if isinstance(first, exp.Tuple) else pivot.expressions
    wanted = [each.unnest().name for each in named]
    labels, rows = [], []
    for item in field.expressions:
        alias = item.alias if isinstance(item, exp.PivotAlias) else None
        inner = item.this if isinstance(item, exp.PivotAlias) else item
        columns = list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner]
        columns = [each.this if isinstance(each, exp.Paren) else each for each in columns]
        if len(columns) != len(wanted):
            raise refuse(item, f"UNPIVOT gives {len(wanted)} columns, and this lists {len(columns)}")
        for each in columns:
            if not isinstance(each, exp.Column):
                raise refuse(each, "UNPIVOT takes columns")
        labels.append(alias or "_".join(each.name for each in columns))
        rows.append(columns)
    read = {texts.text(each) for columns in rows for each in columns}
    others = [column for column in entry.visible if column.internal not in read]
    node, number = repeat_rows(context, pivot, entry.node, "unpivot", numbers_below(len(rows)))
    name = BoundColumn(field.this.name, context.names.fresh("unpivot", "name"))
    quoted = ", ".join("'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'" for label in labels)
    shown = {column.internal: column.internal for column in others} | {name.internal: f"array({quoted})[{number}]"}
    values = []
    for index, label in enumerate(wanted):
        cells = [texts.text(columns[index]) for columns in rows]
        _refuse_unlike(entry, rows[0][index], cells)
        values.append(BoundColumn(label, context.names.fresh("unpivot", label)))
        shown[values[-1].internal] = f"array({', '.join(cells)})[{number}]"
    result: Node = context.project("unpivoted", pivot, node, shown)
    if not pivot.args.get("include_nulls"):
        kept = " OR ".join(f"{value.internal} IS NOT NULL" for value in values)
        result = context.make(Filter, "not_null", pivot, result, context.scalar(kept, pivot))
    return result, [*others, name, *values]


def _refuse_unlike(entry: FromEntry, place: exp.Expr, cells: Sequence[str]) -> None:
    """Spark takes no texts and numbers in one column."""
    if len({family(column_type(entry.node.schema, cell)) for cell in cells}) > 1:
        raise refuse(place, "UNPIVOT is supported only for columns of one kind of type", "cast them in a subquery")
