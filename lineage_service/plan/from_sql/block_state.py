"""One SELECT while it is compiled: its FROM and WHERE first, then what is put on top of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, aggregate_calls, window_nodes
from lineage_service.plan.from_sql.generators import Generator
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.scopes import Scope, parts_of
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.nodes import Filter, Node

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass
class BlockState:
    """A SELECT so far.

    node: its rows so far · texts: how its expressions are written over that node · correlated: conditions of WHERE
    that read a column of the enclosing query, and are applied where the two are joined · carried: as in QueryRelation ·
    is_in_having, is_in_on: while these are compiled · generator: the function of the select list that returns several
    rows.
    """

    context: SqlContext
    ctes: Ctes
    scope: Scope
    node: Node
    texts: ExpressionTexts
    correlated: list[exp.Expr] = field(default_factory=list)
    carried: tuple[str, ...] = ()
    is_in_having: bool = False
    is_in_on: bool = False
    generator: Generator | None = None

    def keep_where(self, texts: list[str], place: exp.Expr) -> None:
        """Keeps the rows for which all conditions hold."""
        if texts:
            condition = self.context.scalar(" AND ".join(texts), place)
            self.node = self.context.make(Filter, "filter", place, self.node, condition)


def refuse_aggregates_and_windows(context: SqlContext, node: exp.Expr, clause: str) -> None:
    """SqlRefusal for an aggregate or window function in a clause that is evaluated row by row."""
    for window in window_nodes(node):
        raise refuse(window, f"{clause} has a window function", "use QUALIFY, or filter around a subquery")
    for call in aggregate_calls(context, node):
        raise refuse(call, f"{clause} has an aggregate function", "write conditions on groups in HAVING")


def columns_read(node: exp.Expr, scope: Scope) -> tuple[frozenset[str], bool]:
    """The columns of this query that an expression reads, and whether it reads one of an enclosing query."""
    from sqlglot import exp

    from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of

    found, reads_outer = set(), False
    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        try:
            resolved = scope.resolve(parts_of(column), offset_of(column))
        except SqlRefusal:
            continue  # the name of a function; or the column is refused when its text is made
        inner = scope.own_column(resolved)
        reads_outer = reads_outer or inner is None
        if inner is not None:
            found.add(inner)
    return frozenset(found), reads_outer


def type_of(node: Node, text: str) -> str | None:
    column = node.schema.find(text)
    return column.type.lower() if column is not None and column.type is not None else None
