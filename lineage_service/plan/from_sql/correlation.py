"""Correlated subqueries: their rows for every row of the enclosing query, in one relation.

The FROM of such a subquery is joined with the distinct values that it reads of the enclosing query, which become
columns of the subquery. Every clause on top keeps them apart: they are grouping columns, partitions, columns of a set
operation. The result is joined with the rows of the enclosing query by these values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState, type_of
from lineage_service.plan.from_sql.expression_texts import call_name, conjuncts, subqueries_in
from lineage_service.plan.from_sql.from_entry import Condition, FromEntry
from lineage_service.plan.from_sql.refusals import SqlRefusal, UnknownName, offset_of, refuse
from lineage_service.plan.from_sql.scopes import OuterColumns, QueryRelation, parts_of
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import (
    Filter,
    Join,
    NamedExpression,
    Node,
    OuterValues,
    Project,
    WithColumns,
    keeps_order,
)

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class SubqueryRows:
    """The rows of a subquery; `values`: which column of it holds which column of the enclosing query, none where the
    subquery reads no such column."""

    relation: QueryRelation
    values: Mapping[str, str]


def subquery_rows(block: BlockState, query: exp.Expr) -> SubqueryRows:
    """The rows of a subquery, once for all rows of the enclosing query."""
    context = block.context
    alone = uncorrelated_rows(block, query)
    if alone is not None:
        return SubqueryRows(alone, {})
    read = outer_columns_read(block, query)
    while True:
        offered = offer_columns(block, query, read)
        before, context.outer_reads = context.outer_reads, set()
        relation = context.compile_query(context, query, block.ctes, replace(block.scope, offered=offered))
        found = [name for name in read if name in context.outer_reads]
        context.outer_reads |= before
        if found == read:
            return SubqueryRows(relation, dict(zip(read, relation.carried, strict=True)))
        read = found  # a name that turned out to be the subquery's own is dropped from the key


def uncorrelated_rows(block: BlockState, query: exp.Expr) -> QueryRelation | None:
    """The rows of a subquery that reads no column of the enclosing query; None where it does."""
    try:
        return block.context.compile_query(block.context, query, block.ctes, None)
    except UnknownName:
        return None


def offer_columns(block: BlockState, place: exp.Expr, columns: Iterable[str]) -> OuterColumns:
    """The distinct values of columns of a query, for its subqueries."""
    context = block.context
    names = {each: context.names.fresh("outer", context.names.shown.get(each, each)) for each in columns}
    texts = {new: old for old, new in names.items()}
    below = context.project("values", place, _rows_with_values(block.node, frozenset(names)), texts)
    return OuterColumns(context.make(OuterValues, "outer_values", place, below), names)


def _rows_with_values(node: Node, columns: frozenset[str]) -> Node:
    """A node below this one that has at least the same values in these columns.

    It is without the joins that added subqueries, which need not be computed twice. Extra values match no row.
    """
    if isinstance(node, Join) and node.how in ("left", "semi", "anti"):
        if all(node.left.schema.find(name) is not None for name in columns):
            return _rows_with_values(node.left, columns)
    elif isinstance(node, WithColumns) and not columns & {named.name for named in node.columns}:
        return _rows_with_values(node.input, columns)
    elif isinstance(node, Filter):
        below = _rows_with_values(node.input, columns)
        return node if below is node.input else below
    return node


def outer_columns_read(block: BlockState, query: exp.Expr) -> list[str]:
    """The columns of a query that names in its subquery may mean."""
    from sqlglot import exp

    found: dict[str, None] = {}
    for column in query.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        try:
            outer = block.scope.own_column(block.scope.resolve(parts_of(column), offset_of(column)))
        except SqlRefusal:
            continue
        if outer is not None and (block.texts.readable is None or outer in block.texts.readable):
            found[outer] = None
    return list(found)


def carry_outer_values(
    context: SqlContext, place: exp.Expr, entries: Sequence[FromEntry], offered: OuterColumns
) -> tuple[list[FromEntry], tuple[str, ...], list[Condition]]:
    """The entries of a FROM beside the values of the enclosing query; the columns that hold these; and conditions where
    several entries carry them, each with the columns that it reads."""
    carrying = [entry.carried for entry in entries if entry.carried]
    if carrying:
        same = [
            (f"{one} <=> {other}", frozenset({one, other}))
            for others in carrying[1:]
            for one, other in zip(carrying[0], others, strict=True)
        ]
        return list(entries), carrying[0], same
    copied = _copies(context, offered.names.values())
    node = context.project("outer", place, offered.node, {new: old for old, new in copied.items()})
    return [FromEntry(node, (), ()), *entries], tuple(copied.values()), []


def keep_empty_groups(block: BlockState, place: exp.Expr) -> str:
    """An aggregate over no rows has a value too: brings in the values of the enclosing query for which there is no row.

    The name of a column that is null in such rows, which no aggregate function may see.
    """
    assert block.scope.parent is not None and block.scope.parent.offered is not None
    context, offered = block.context, block.scope.parent.offered
    has_row = context.names.fresh("row", "exists")
    marked = NamedExpression(has_row, context.scalar("true", place))
    rows = context.make(WithColumns, "has_row", place, block.node, (marked,))
    copied = _copies(context, block.carried)
    values = dict(zip(offered.names.values(), copied.values(), strict=True))
    every = context.project("outer", place, offered.node, {new: old for old, new in values.items()})
    on = context.scalar(" AND ".join(f"{new} <=> {old}" for old, new in copied.items()), place)
    block.node = context.make(Join, "join", place, every, rows, "left", on, ())
    block.carried = tuple(copied.values())
    return has_row


def with_renamed_outer(block: BlockState, before: tuple[str, ...]) -> None:
    """Names of the enclosing query mean the columns that now hold their values."""
    new = dict(zip(before, block.carried, strict=True))
    renamed = {outer: new.get(inner, inner) for outer, inner in block.scope.outer.items()}
    block.scope = replace(block.scope, outer=renamed)
    block.texts = replace(block.texts, scope=block.scope)


def refuse_outer_columns(block: BlockState, node: exp.Expr) -> None:
    """SqlRefusal for a column of the enclosing query in what Spark computes of groups."""
    from sqlglot import exp

    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Star) or not block.scope.outer:
            continue
        try:
            found = block.scope.resolve(parts_of(column), offset_of(column))
        except SqlRefusal:
            continue
        if found.level:
            raise refuse(
                column,
                "in a subquery with aggregate functions, Spark allows columns of the enclosing query only in WHERE and "
                "HAVING",
                "compute it outside of the subquery",
            )


def refuse_limit_below_cast(block: BlockState, select: exp.Expr) -> None:
    """SqlRefusal for a LIMIT that Spark 4.3 cuts once for all rows of the enclosing query: where a column of theirs is
    compared with one of another type."""
    from sqlglot import exp

    where, limit = select.args.get("where"), select.args.get("limit") or select.args.get("offset")
    if not block.carried or where is None or limit is None:
        return
    for condition in conjuncts(where.this):
        if not isinstance(condition, exp.EQ) or any(subqueries_in(condition)):
            continue
        plain = replace(block.texts, readable=None)
        texts = [plain.text(each) for each in (condition.this, condition.expression)]
        types = {type_of(block.node, text) for text in texts}
        if (len(types) > 1 or None in types) and set(block.carried) & {*texts}:
            raise refuse(
                condition,
                "a correlated subquery with LIMIT is supported only if it compares columns of the same type",
                "cast one side in a derived table",
            )


# Functions that give another value for the same rows in another order; some have an order of their own WITHIN GROUP.
_OF_AN_ORDER = frozenset({"any_value", "array_agg", "collect_list", "first", "first_value", "last", "last_value",
                          "listagg", "string_agg"})  # fmt: skip


_IN_ANY_ORDER = frozenset({"array_sort", "sort_array", "size", "cardinality", "array_max", "array_min"})


def refuse_function_of_order(block: BlockState, call: exp.Expr, name: str | None) -> None:
    """SqlRefusal for a function that reads the order of a derived table in a correlated subquery: Spark drops the order
    of some of these, and joins the rows in another way."""
    from sqlglot import exp

    has_order = any(isinstance(each, exp.Order) for each in call.walk())
    around = call.parent
    if around is not None and call_name(block.context, around) in _IN_ANY_ORDER:
        has_order = has_order or not isinstance(around.args.get("expression"), exp.Lambda)
    if block.carried and name in _OF_AN_ORDER and not has_order and _is_sorted(block.node):
        raise refuse(
            call,
            f"{name}() over a sorted derived table in a correlated subquery: the order of these rows is not determined",
            "write the order into the function: sort_array(collect_list(…)), listagg(…) WITHIN GROUP (ORDER BY …), "
            "max_by() or min_by()",
        )


def _is_sorted(node: Node) -> bool:
    """Whether the rows come from ones that were sorted."""
    if keeps_order(node):
        return True
    if isinstance(node, Filter | Project | WithColumns | Join):
        return any(_is_sorted(below) for below in node.inputs)
    return False


def only_where(text: str, condition: str) -> str:
    """A call of an aggregate function that sees only rows for which a column is true."""
    from lineage_service.plan.expressions import closing_parenthesis, tokens_of

    tokens = tokens_of(text)
    opening = next(index for index, token in enumerate(tokens) if token.token_type.name == "L_PAREN")
    last = closing_parenthesis(tokens, opening)
    words = [token.text.lower() for token in tokens]
    if words[last + 1 : last + 2] == ["within"]:
        last = closing_parenthesis(tokens, last + 3)
    if words[last + 1 : last + 2] == ["filter"]:
        end = closing_parenthesis(tokens, last + 2)
        first, behind = tokens[last + 3].end + 1, tokens[end].start
        return f"{text[:first]} {condition} AND ({text[first:behind].strip()}){text[behind:]}"
    end = tokens[last].end + 1
    return f"{text[:end]} FILTER (WHERE {condition}){text[end:]}"


def _copies(context: SqlContext, columns: Iterable[str]) -> dict[str, str]:
    return {each: context.names.fresh("outer", context.names.shown.get(each, each)) for each in columns}
