"""One SELECT, in the order in which its clauses are evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean
from lineage_service.plan.from_sql.aggregates import group_rows
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.correlation import refuse_limit_below_cast, refuse_outer_columns
from lineage_service.plan.from_sql.expression_texts import (
    aggregate_calls,
    conjuncts,
    operand,
    subqueries_in,
    window_nodes,
)
from lineage_service.plan.from_sql.generators import explode_rows
from lineage_service.plan.from_sql.ordering import (
    VOLATILE_ORDER,
    order_and_limit,
    output_column,
    sort_keys,
    text_of_result,
)
from lineage_service.plan.from_sql.refusals import UnknownName, refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, QueryRelation, Scope
from lineage_service.plan.from_sql.select_aliases import read_aliases_in_having, read_aliases_in_qualify
from lineage_service.plan.from_sql.select_list import SelectItem, select_items
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.from_sql.sql_windows import add_windows
from lineage_service.plan.from_sql.subqueries import apply_subqueries, attach_subqueries
from lineage_service.plan.nodes import Distinct

if TYPE_CHECKING:
    from sqlglot import exp


def compile_select(context: SqlContext, select: exp.Expr, ctes: Ctes, parent: Scope | None) -> QueryRelation:
    """The rows of a SELECT: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, the select list, DISTINCT, ORDER BY."""
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refuse(select, "DISTINCT ON is not supported in sql steps")
    block = context.compile_from_and_where(context, select, ctes, parent)
    items = select_items(block, select)
    shown = [item.node for item in items if item.node is not None]
    having, qualify, order = (select.args.get(key) for key in ("having", "qualify", "order"))
    ordered = [each.this for each in order.expressions] if order is not None else []
    readers = [*shown, *([having.this] if having is not None else []), *([qualify.this] if qualify is not None else []),
               *ordered, *(select.args.get("windows") or []),
               *([block.generator.call] if block.generator is not None else [])]  # fmt: skip
    calls = [call for reader in readers for call in aggregate_calls(context, reader)]
    if select.args.get("group") is not None or having is not None or calls:
        group_rows(block, select, items, readers)
        if block.carried:
            for node in shown:
                refuse_outer_columns(block, node)
    if having is not None:
        block.is_in_having = True
        with _aliases_as_hints(items):
            _keep_where(block, select, having, items, "HAVING")
    windowed = [*shown, *([qualify.this] if qualify is not None else []), *ordered]
    windows = [each for node in windowed for each in window_nodes(node)]
    for window in windows:
        attach_subqueries(block, window)
    if block.generator is not None:
        _explode_select_list(block, windows)
    for window in window_nodes(qualify.this) if qualify is not None else ():
        read_aliases_in_qualify(block, select, window, items)
    add_windows(block, select, windowed)
    for node in shown:
        attach_subqueries(block, node)
    if qualify is not None:
        with _aliases_as_hints(items):
            _keep_where(block, select, qualify, items, "QUALIFY")
    is_one_row = select.args.get("group") is None and (bool(calls) or select.args.get("from_") is None)
    is_one_row = is_one_row and block.generator is None
    with _aliases_as_hints(items):
        return _result(block, select, items, is_one_row)


@contextmanager
def _aliases_as_hints(items: Sequence[SelectItem]) -> Iterator[None]:
    """Unknown names of clauses that may read the select list: one of its names may have been meant."""
    try:
        yield
    except UnknownName as error:
        if error.hint is None:
            error.hint = did_you_mean(error.name, [item.name for item in items if item.aliased and item.name])
        raise


def _explode_select_list(block: BlockState, windows: Sequence[exp.Expr]) -> None:
    """The rows of a function of the select list that returns several."""
    generator = block.generator
    assert generator is not None
    for window in windows:
        raise refuse(window, "a window function beside a function that returns several rows",
                     "compute one of them in a subquery")  # fmt: skip
    attach_subqueries(block, generator.call)
    block.node = explode_rows(block.context, generator, block.node, block.texts.text)


def _keep_where(block: BlockState, select: exp.Expr, clause: exp.Expr, items: Sequence[SelectItem], name: str) -> None:
    """HAVING or QUALIFY: a filter that may read the select list by its aliases."""
    from sqlglot import exp

    if name == "HAVING":
        for window in window_nodes(clause.this):
            raise refuse(window, "HAVING has a window function", "use QUALIFY")
    elif not any(window_nodes(clause.this)) and not any(
        w for i in items if i.node is not None for w in window_nodes(i.node)
    ):
        raise refuse(clause, "QUALIFY without a window function", "use WHERE or HAVING")
    else:
        for call in aggregate_calls(block.context, clause.this):
            if not isinstance(call.find_ancestor(exp.Window, exp.Query), exp.Window):
                raise refuse(call, "QUALIFY has an aggregate function", "give it an alias in the select list")
    if name == "HAVING":
        read_aliases_in_having(block, clause.this, items)
    else:
        read_aliases_in_qualify(block, select, clause.this, items)
    for condition in conjuncts(clause.this):
        if any(subqueries_in(condition)):
            apply_subqueries(block, condition)
        else:
            block.keep_where([block.texts.text(condition)], condition)


def _result(block: BlockState, select: exp.Expr, items: Sequence[SelectItem], is_single_row: bool) -> QueryRelation:
    """The select list as columns, in order. Columns that only ORDER BY reads are added, and removed after sorting."""
    context = block.context
    texts: dict[str, str] = {}
    places: dict[str, exp.Expr] = {}
    columns = []
    for item in items:
        internal = context.names.fresh("out", item.name if item.name and item.name.isidentifier() else "column")
        places[internal] = item.place
        texts[internal] = item.text(block)
        columns.append(BoundColumn(item.name, internal))
    relation = QueryRelation(block.node, tuple(columns))
    hidden: dict[str, str] = {}
    distinct = select.args.get("distinct") is not None
    keys = sort_keys(
        context, select, relation, lambda node: _ordered_text(block, node, relation, texts, hidden, distinct)
    )
    _check_arrangement(block, select, relation, texts)
    carried = {name: name for name in block.carried}
    node = context.project("select", select, block.node, {**texts, **hidden, **carried}, places)
    if distinct:
        node = context.make(Distinct, "distinct", select, node)
    refuse_limit_below_cast(block, select)
    node = order_and_limit(context, select, node, keys, block.carried)
    if hidden:
        node = context.project("select", select, node, {name: name for name in (*texts, *carried)})
    return QueryRelation(node, relation.columns, block.carried, is_single_row)


def _check_arrangement(block: BlockState, select: exp.Expr, relation: QueryRelation, texts: dict[str, str]) -> None:
    """Checks SORT BY, DISTRIBUTE BY and CLUSTER BY: they do not change the rows, but must be valid."""
    from sqlglot import exp

    for key in ("sort", "cluster", "distribute"):
        clause = select.args.get(key)
        if clause is None:
            continue
        if select.args.get("limit") is not None or select.args.get("offset") is not None:
            raise refuse(clause, f"{key.upper()} BY does not determine which rows LIMIT keeps", "use ORDER BY")
        for each in clause.expressions:
            _ordered_text(block, each.this if isinstance(each, exp.Ordered) else each, relation, texts, {}, False)


def _ordered_text(
    block: BlockState,
    node: exp.Expr,
    relation: QueryRelation,
    texts: dict[str, str],
    hidden: dict[str, str],
    distinct: bool,
) -> str:
    """An expression of ORDER BY over the columns of the result and, where it reads others, over hidden ones."""
    from sqlglot import exp

    whole = output_column(node, relation)
    if whole is not None:
        return whole
    computed = dict(block.texts.computed)
    for call in aggregate_calls(block.context, node):
        for column in call.find_all(exp.Column):
            if output_column(column, relation) is not None and any(
                texts[each.internal] != _text_or_none(block, column)
                for each in relation.columns
                if (each.name or "").lower() == column.name.lower()
            ):
                raise refuse(
                    column,
                    f"'{column.name}' in ORDER BY is ambiguous: it is a column of the result and of a table in FROM",
                )
    inside = {id(column) for call in aggregate_calls(block.context, node) for column in call.find_all(exp.Column)}
    inside |= {id(column) for window in window_nodes(node) for column in window.find_all(exp.Column)}
    for column in node.find_all(exp.Column):
        output = output_column(column, relation) if id(column) not in inside else None
        if output is not None:
            computed[id(column)] = operand(texts[output])
    if any(subqueries_in(node)):
        raise refuse(node, "a subquery in ORDER BY is not supported in sql steps", "compute it in the select list")
    text = replace(block.texts, computed=computed).text(node)
    shown = next((name for name, each in texts.items() if each == text), None)
    if shown is not None:
        return shown
    if distinct:
        return text_of_result(block.context, node, relation)
    if block.context.expression(text, node).is_volatile:
        raise refuse(node, VOLATILE_ORDER)
    name = block.context.names.fresh("order", "key")
    hidden[name] = text
    return name


def _text_or_none(block: BlockState, column: exp.Expr) -> str | None:
    from lineage_service.plan.from_sql.refusals import SqlRefusal

    try:
        return replace(block.texts, readable=None).text(column)
    except SqlRefusal:
        return None
