"""Each row several times, with the number of the copy: for VALUES, range(), grouping sets and UNPIVOT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import Explode, NamedExpression, Node, WithColumns

if TYPE_CHECKING:
    from sqlglot import exp


def repeat_rows(context: SqlContext, place: exp.Expr, node: Node, what: str, numbers: str) -> tuple[Node, str]:
    """A copy of every row for each element of the array `numbers`, and the column that holds this element."""
    listed, number = context.names.fresh(what, "numbers"), context.names.fresh(what, "number")
    array = NamedExpression(listed, context.scalar(numbers, place))
    below = context.make(WithColumns, "numbers", place, node, (array,))
    return context.make(Explode, what, place, below, listed, number, False), number


def numbers_below(count: int) -> str:
    """The array 0, 1, … as Spark SQL."""
    return f"array({', '.join(map(str, range(count)))})"
