"""Names that a query gives to columns without AS: in lists, in set operations, and in texts.

A column with such a name may hold anything, even if the name is that of a personal column. Where the names of a query
are not known, each of its columns may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lineage_service.spec.sql_parsing import deep_recursion, parse_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot import exp

EVERY_NAME = "*"
"""Stands for all names."""


def names_in_query(query: str, *, is_duckdb: bool = False) -> Iterator[str]:
    """The names, in lower case; `EVERY_NAME` where they are not known."""
    tree = _tree(query, is_duckdb)
    if tree is None:
        yield EVERY_NAME
        return
    for name in (*_names_in_lists(tree), *_names_of_unions(tree), *_names_in_texts(tree)):
        yield name.lower()


def _tree(query: str, is_duckdb: bool) -> exp.Expr | None:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    query = re.sub(r"\$\{[^{}]*\}", "1", query)  # variables
    try:
        if not is_duckdb:
            return parse_query(query)
        with deep_recursion():
            tree = sqlglot.parse_one(query, read="duckdb")
        return tree if isinstance(tree, exp.Query) else None
    except (SqlSyntaxError, SqlglotError, RecursionError):
        return None


def _names_in_lists(tree: exp.Expr) -> Iterator[str]:
    """Of CTEs, tables in FROM, LATERAL VIEW, UNPIVOT, structs, and functions that return several columns."""
    from sqlglot import exp

    for node in tree.find_all(exp.TableAlias, exp.Aliases, exp.Pivot, exp.PropertyEQ):
        if isinstance(node, exp.TableAlias):
            parent = node.parent
            columns = _columns_of(parent.this) if isinstance(parent, (exp.CTE, exp.Subquery)) else None
            for index, column in enumerate(node.columns):
                if columns is None or index >= len(columns) or columns[index] != column.name.lower():
                    yield column.name
        elif isinstance(node, exp.PropertyEQ):
            yield node.left.name  # a field of a struct
        elif isinstance(node, exp.Aliases):
            yield from (each.name for each in node.expressions)
        elif node.args.get("unpivot"):
            yield from (each.name for each in node.find_all(exp.Identifier))
        else:
            yield from _names_of_pivot(node)


def _names_of_pivot(pivot: exp.Expr) -> Iterator[str]:
    """PIVOT with several aggregates puts the name of the value before that of the aggregate."""
    from sqlglot import exp

    values = [each.name for field in pivot.args.get("fields") or () for each in field.find_all(exp.Literal)]
    values += [each.alias for each in pivot.find_all(exp.PivotAlias)]
    for aggregate in pivot.expressions:
        yield from (f"{value}_{aggregate.alias_or_name}" for value in values)


def _names_of_unions(tree: exp.Expr) -> Iterator[str]:
    """UNION has the names of its first query, and the values of both."""
    from sqlglot import exp

    for union in tree.find_all(exp.Union):
        if union.args.get("by_name") or _are_alike(union.left, union.right):
            continue
        names, first, second = _names_of(union.left), _columns_of(union.left), _columns_of(union.right)
        if names is None or first is None or second is None or len(first) != len(second):
            yield EVERY_NAME
            continue
        for name, one, other in zip(names, first, second, strict=True):
            if not name == one == other:
                yield name


def _are_alike(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two queries take the same columns of the same table."""
    from sqlglot import exp

    def taken(query: exp.Expr) -> Any:
        query = query.unnest()
        if not isinstance(query, exp.Select) or query.args.get("joins") or query.args.get("laterals"):
            return None
        source = query.args.get("from_")
        if source is None or not isinstance(source.this, exp.Table) or source.this.args.get("pivots"):
            return None
        return [each.sql().lower() for each in (*query.expressions, source)]

    return taken(one) is not None and taken(one) == taken(other)


def _first_select(query: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    query = query.unnest()
    while isinstance(query, exp.SetOperation):
        query = query.left.unnest()
    return query


def _names_of(query: exp.Expr) -> list[str] | None:
    """The names of a query's columns; None if they are not known."""
    from sqlglot import exp

    select = _first_select(query)
    if not isinstance(select, exp.Select) or any(each.is_star for each in select.expressions):
        return None
    return [each.alias_or_name.lower() for each in select.expressions]


def _columns_of(query: exp.Expr) -> list[str] | None:
    """The column that each column of a query is taken from, empty for anything else; None if they are not known."""
    from sqlglot import exp

    select = _first_select(query)
    if _names_of(select) is None:
        return None
    plain = [each.unalias() for each in select.expressions]
    return [each.name.lower() if isinstance(each, exp.Column) else "" for each in plain]


def _names_in_texts(tree: exp.Expr) -> Iterator[str]:
    """Words in texts that functions and PIVOT can make names from, such as `from_json(x, 'name STRING')`."""
    from sqlglot import exp

    for literal in tree.find_all(exp.Literal):
        is_compared = isinstance(literal.parent, exp.Predicate) and literal.find_ancestor(exp.Pivot) is None
        if literal.is_string and not is_compared:
            yield from re.findall(r"\w+", literal.name)
