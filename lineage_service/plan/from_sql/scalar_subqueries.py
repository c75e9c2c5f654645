"""Scalar subqueries: a column that holds the value of the one row that a subquery gives, null where it gives none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState, columns_read
from lineage_service.plan.from_sql.correlation import subquery_rows
from lineage_service.plan.from_sql.existence_joins import plain_values
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, aggregate_calls, call_name, operand
from lineage_service.plan.from_sql.refusals import offset_of, refuse
from lineage_service.plan.from_sql.runtime_errors import more_than_one_row
from lineage_service.plan.from_sql.subquery_shapes import (
    KeyedConditions,
    compile_plain_from_and_where,
    grouping_keys,
    is_one_aggregate,
    is_plain,
    keyed_conditions,
    without_parentheses,
)
from lineage_service.plan.nodes import Aggregate, Join, NamedExpression, Node, WithColumns

if TYPE_CHECKING:
    from sqlglot import exp

# Aggregate functions that return null, or 0, if a group has no rows.
_NULL_WITHOUT_ROWS = frozenset({"sum", "avg", "mean", "min", "max", "stddev", "stddev_samp", "stddev_pop", "std",
                              "variance", "var_samp", "var_pop"})  # fmt: skip
_ZERO_WITHOUT_ROWS = frozenset({"count", "count_if"})


def attach_scalar(block: BlockState, subquery: exp.Expr) -> None:
    """Joins the value of a scalar subquery with the rows so far."""
    query = without_parentheses(subquery)
    if not (is_one_aggregate(block, query) and _attach_aggregate(block, subquery, query)):
        _attach_row(block, subquery, query)


def _attach_aggregate(block: BlockState, subquery: exp.Expr, select: exp.Expr) -> bool:
    """One expression of aggregates, grouped by what the subquery compares with the enclosing query; False where it
    compares in another way than that, or where a group without rows has a value that is not known here."""
    from sqlglot import exp

    context = block.context
    item = select.expressions[0]
    item = item.this if isinstance(item, exp.Alias) else item
    calls = list(aggregate_calls(context, item))
    inner = compile_plain_from_and_where(block, select)
    keyed = keyed_conditions(block, inner) if inner is not None else None
    if inner is None or keyed is None:
        return False
    is_correlated = bool(keyed.pairs or keyed.outer_only)
    known = _NULL_WITHOUT_ROWS | _ZERO_WITHOUT_ROWS
    if is_correlated and any(call_name(context, call) not in known for call in calls):
        return False
    _refuse_correlated(block, subquery, is_correlated=is_correlated)
    measures, computed = [], {}
    for call in calls:
        context.attach_subqueries(inner, call)
        name = context.names.fresh("scalar", call_name(context, call))
        expression = context.expression(inner.texts.text(call), call)
        if expression.nests_aggregates:
            raise refuse(call, "an aggregate function inside another")
        measures.append(NamedExpression(name, expression))
        is_counted = is_correlated and call_name(context, call) in _ZERO_WITHOUT_ROWS
        computed[id(call)] = f"coalesce({name}, 0L)" if is_counted else name
    keys, conditions = grouping_keys(block, subquery, keyed)
    grouped = context.make(Aggregate, "scalar", subquery, inner.node, keys, tuple(measures))
    on = context.scalar(" AND ".join(conditions), subquery) if conditions else None
    block.node = context.make(Join, "join", subquery, block.node, grouped, "left" if conditions else "cross", on, ())
    outer = BlockState(context, block.ctes, inner.scope, block.node, inner.texts)
    outer.texts = ExpressionTexts(context, inner.scope, computed, readable=frozenset())
    context.attach_subqueries(outer, item)
    block.node = outer.node
    block.texts.computed[id(subquery)] = operand(outer.texts.text(item))
    return True


def _attach_row(block: BlockState, subquery: exp.Expr, query: exp.Expr) -> None:
    """The row that any other subquery gives. More than one is an error of the run."""
    context = block.context
    row = _keyed_row(block, query)
    if row is not None:
        _refuse_correlated(block, subquery, is_correlated=bool(row.keyed.pairs or row.keyed.outer_only))
        _join_only_row(block, subquery, row)
        return
    rows = subquery_rows(block, query)
    if len(rows.relation.columns) != 1:
        given = len(rows.relation.columns)
        raise refuse(subquery, f"a scalar subquery gives one column, and this gives {given}")
    _refuse_correlated(block, subquery, is_correlated=bool(rows.values))
    node, value = rows.relation.node, rows.relation.columns[0].internal
    if not rows.relation.is_single_row:
        _join_only_row(
            block, subquery, _KeyedRow(node, value, KeyedConditions(tuple(rows.values.items())), null_safe=True)
        )
        return
    on = " AND ".join(f"{outer} <=> {inner}" for outer, inner in rows.values.items()) or "true"
    block.node = context.make(Join, "join", subquery, block.node, node, "left", context.scalar(on, subquery), ())
    block.texts.computed[id(subquery)] = value


@dataclass(frozen=True, slots=True)
class _KeyedRow:
    """Rows of a subquery, its value, and how it compares keys with the enclosing query."""

    node: Node
    value: str
    keyed: KeyedConditions
    null_safe: bool = False


def _keyed_row(block: BlockState, query: exp.Expr) -> _KeyedRow | None:
    """A subquery that is one expression over the rows of FROM for which WHERE holds, and compares keys; else None."""
    if not is_plain(block, query) or any(query.args.get(key) for key in ("distinct", "order")):
        return None
    values = plain_values(block, query)
    if values is None or len(values[1]) != 1:
        return None
    inner, (value,) = values
    keyed = keyed_conditions(block, inner)
    if keyed is None or columns_read(value, inner.scope)[1]:
        return None
    return _KeyedRow(inner.node, inner.texts.text(value), keyed)


def _join_only_row(block: BlockState, place: exp.Expr, row: _KeyedRow) -> None:
    """Joins the only row that there is for each outer row. A group of one row has its value and its lineage.

    Only groups that are joined may not have several rows: as in Spark, other values are not checked.
    """
    context = block.context
    keys, conditions = grouping_keys(block, place, row.keyed, null_safe=row.null_safe)
    shown = context.names.shown.get(row.value, "value")
    count, only, result = (context.names.fresh("scalar", part) for part in ("rows", shown, shown))
    measures = (
        NamedExpression(count, context.expression("count(1)", place)),
        NamedExpression(only, context.expression(f"max({row.value})", place)),
    )
    grouped = context.make(Aggregate, "only_row", place, row.node, keys, measures)
    on = context.scalar(" AND ".join(conditions) or "true", place)
    joined = context.make(Join, "join", place, block.node, grouped, "left", on, ())
    position = context.sql.position(offset_of(place))
    checked = context.scalar(f"CASE WHEN {count} > 1 THEN {more_than_one_row(position)} ELSE {only} END", place)
    block.node = context.make(WithColumns, "scalar", place, joined, (NamedExpression(result, checked),))
    block.texts.computed[id(place)] = result


def _refuse_correlated(block: BlockState, subquery: exp.Expr, *, is_correlated: bool) -> None:
    if is_correlated and block.is_in_on:
        raise refuse(
            subquery,
            "Spark does not allow a correlated scalar subquery in ON",
            "put it into WHERE, or into a derived table",
        )
    if is_correlated and block.texts.readable is not None and not block.is_in_having:
        raise refuse(
            subquery,
            "in a query with GROUP BY, Spark allows a correlated scalar subquery only inside an aggregate function or "
            "in GROUP BY",
            "group in a derived table, and put the subquery into the SELECT that reads it",
        )
