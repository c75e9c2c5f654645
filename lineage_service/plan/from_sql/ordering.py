"""ORDER BY and LIMIT: by the columns of the result first, else by what the SELECT reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lineage_service.plan.expressions import Expression, SortKey
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, subqueries_in
from lineage_service.plan.from_sql.refusals import offset_of, refuse
from lineage_service.plan.from_sql.scopes import QueryRelation, Scope
from lineage_service.plan.from_sql.select_list import ordinal
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import GroupLimit, Limit, Node, Sort

if TYPE_CHECKING:
    from sqlglot import exp

VOLATILE_ORDER = "ORDER BY an expression that is not repeatable, such as rand(), is not supported in sql steps"


def sort_keys(
    context: SqlContext, query: exp.Expr, result: QueryRelation, text_of: Callable[[exp.Expr], str]
) -> tuple[SortKey, ...]:
    """ORDER BY of a query; `text_of` writes an expression over the columns of the node that is sorted."""
    order = query.args.get("order")
    keys = []
    every = _every_column(order, result)
    if every is not None:
        return every
    for each in order.expressions if order is not None else ():
        if each.args.get("with_fill"):
            raise refuse(each, "WITH FILL is not supported in sql steps")
        place = ordinal(each.this, len(result.columns), "ORDER BY")
        text = result.columns[place - 1].internal if place is not None else text_of(each.this)
        descending, nulls_first = bool(each.args.get("desc")), bool(each.args.get("nulls_first"))
        keys.append(SortKey(context.scalar(text, each), descending, nulls_first))
    return tuple(keys)


def _every_column(order: exp.Expr | None, result: QueryRelation) -> tuple[SortKey, ...] | None:
    """ORDER BY ALL: by all columns of the result, one after the other."""
    from sqlglot import exp

    entries = order.expressions if order is not None else []
    if len(entries) != 1 or not isinstance(entries[0].this, exp.Var) or entries[0].name.lower() != "all":
        return None
    if any((column.name or "").lower() == "all" for column in result.columns):
        raise refuse(entries[0], "ORDER BY ALL where a column is called 'all'", "name the columns")
    descending, nulls_first = bool(entries[0].args.get("desc")), bool(entries[0].args.get("nulls_first"))
    return tuple(SortKey(Expression(each.internal), descending, nulls_first) for each in result.columns)


def order_and_limit(
    context: SqlContext, query: exp.Expr, node: Node, keys: tuple[SortKey, ...], carried: Sequence[str] = ()
) -> Node:
    """The rows in order, or the first of them; `carried` as in QueryRelation."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    _check_limit(context, limit, offset)
    if limit is not None or offset is not None:
        place = limit if limit is not None else query
        most = None if limit is None or _is_all(limit) else _count(limit, "LIMIT")
        passed = 0 if offset is None else _count(offset, "OFFSET")
        if (most is not None or passed) and carried:
            return context.make(GroupLimit, "limit", place, node, most, keys, passed, tuple(carried))
        if most is not None or passed:
            return context.make(Limit, "limit", place, node, most, keys, passed)
    return context.make(Sort, "sort", query.args["order"], node, keys) if keys else node


_PARTS_OF_LIMIT = {
    "expressions": ("LIMIT BY", "number the rows of each group with row_number(), and filter by that"),
    "limit_options": ("LIMIT with PERCENT, ROWS or WITH TIES", "write LIMIT and a number"),
}


def _check_limit(context: SqlContext, limit: exp.Expr | None, offset: exp.Expr | None) -> None:
    """SqlRefusal for a form of LIMIT that the parser reads and Spark SQL does not have."""
    from sqlglot import exp

    for clause in (limit, offset):
        if clause is None:
            continue
        if isinstance(clause, exp.Fetch):
            raise refuse(clause, "Spark SQL has no FETCH", "write LIMIT")
        for key, value in clause.args.items():
            if value and key not in ("this", "expression"):
                name, hint = _PARTS_OF_LIMIT.get(key, (key.strip("_").upper(), "write LIMIT and a number"))
                raise refuse(clause, f"Spark SQL has no {name}", hint)
    if offset is not None:
        before = [token.text.lower() for token in context.tokens if token.start < offset_of(offset)]
        if before[-1:] == ["limit"]:
            raise refuse(offset, "Spark SQL has no LIMIT with two numbers", "write LIMIT count OFFSET offset")


def _is_all(limit: exp.Expr) -> bool:
    from sqlglot import exp

    most = limit.args.get("expression")
    return isinstance(most, exp.Var) and most.name.lower() == "all"


def _count(limit: exp.Expr, clause: str) -> int:
    from sqlglot import exp

    number = limit.args.get("expression")
    if not isinstance(number, exp.Literal) or not number.name.isdecimal():
        raise refuse(limit, f"{clause} needs a literal number in sql steps")
    return int(number.name)


def text_of_result(context: SqlContext, node: exp.Expr, result: QueryRelation) -> str:
    """An expression of ORDER BY that can read no more than the columns of the result: DISTINCT, set operations."""
    whole = output_column(node, result)
    if whole is not None:
        return whole
    if any(subqueries_in(node)):
        raise refuse(node, "a subquery in ORDER BY is not supported in sql steps", "compute it in the select list")
    text = ExpressionTexts(context, Scope((), result.columns)).text(node)
    if context.expression(text, node).is_volatile:
        raise refuse(node, VOLATILE_ORDER)
    return text


def output_column(node: exp.Expr, result: QueryRelation) -> str | None:
    """The column of the result that a name means, None where no column is called so."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or len(node.parts) != 1:
        return None
    found = {column.internal for column in result.columns if (column.name or "").lower() == node.name.lower()}
    if len(found) > 1:
        raise refuse(node, f"column '{node.name}' is ambiguous: {len(found)} columns of the result are called so")
    return next(iter(found), None)
