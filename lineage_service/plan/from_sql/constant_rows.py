"""Rows that come from no table: VALUES, range(), and the one row of a SELECT without FROM. They have no lineage.

The leaves of a plan are sources. The single row is therefore an aggregate without keys over no rows of a source, and
OuterValues removes its lineage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.errors import Problem
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.repeated_rows import numbers_below, repeat_rows
from lineage_service.plan.from_sql.scopes import BoundColumn, QueryRelation, Scope
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Filter,
    Intersect,
    NamedExpression,
    Node,
    OuterValues,
    PlanError,
    Source,
)
from lineage_service.plan.plan_rewriting import nodes_below

if TYPE_CHECKING:
    from sqlglot import exp

_LONGEST_RANGE = 1_000_000


def one_row(context: SqlContext, place: exp.Expr) -> Node:
    """One row behind which no row of any table stands."""
    if not context.tables:
        raise refuse(place, "the query reads no source and no step, so its rows have no lineage",
                     "select from a source or a step")  # fmt: skip
    sources = [node for node in context.tables.values() if isinstance(node, Source)]
    below = sources[0] if sources else next(iter(context.tables.values()))
    none = context.make(Filter, "nothing", place, below, context.scalar("false", place))
    count = NamedExpression(context.names.fresh("one", "row"), context.expression("count(1)", place))
    row = context.make(Aggregate, "row", place, none, (), (count,))
    return context.make(OuterValues, "one_row", place, row)


def check_set_operations(node: Node) -> None:
    """PlanError where only one side of INTERSECT or EXCEPT has rows of a table: capture groups the rows of both."""
    for each in nodes_below(node):
        if isinstance(each, Intersect | Difference) and len({reads_source(side) for side in each.inputs}) > 1:
            message = (
                "INTERSECT and EXCEPT between a table and constant rows (VALUES, range) are not supported in sql steps"
            )
            raise PlanError([Problem(message, each.position, "compare with constants: IN (1, 2)")])


def reads_source(node: Node) -> bool:
    """Whether rows of a source may stand behind a node's rows."""
    seen, pending = set[str](), [node]
    while pending:
        each = pending.pop()
        if isinstance(each, Source):
            return True
        if each.id not in seen and not isinstance(each, OuterValues):
            seen.add(each.id)
            pending += each.inputs
    return False


def values_relation(context: SqlContext, values: exp.Expr) -> QueryRelation:
    """VALUES: the one row as often as there are rows, each with its number; the columns are looked up by it."""
    from sqlglot import exp

    rows = [list(each.expressions) if isinstance(each, exp.Tuple) else [each] for each in values.expressions]
    width = len(rows[0])
    for row, entry in zip(rows, values.expressions, strict=True):
        if len(row) != width:
            raise refuse(entry, f"VALUES has rows of {width} and of {len(row)} columns")
    node, number = repeat_rows(context, values, one_row(context, values), "rows", numbers_below(len(rows)))
    texts = ExpressionTexts(context, Scope((), ()))
    names = [f"col{index + 1}" for index in range(width)]
    columns = [BoundColumn(name, context.names.fresh("values", name)) for name in names]
    computed = {}
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        _refuse_mixed_literals(cells)
        written = [texts.text(cell) for cell in cells]
        for text, cell in zip(written, cells, strict=True):
            if context.scalar(text, cell).is_volatile:
                raise refuse(
                    cell,
                    "VALUES with an expression that is not repeatable, such as rand(), is not supported in sql steps",
                )
        computed[column.internal] = f"array({', '.join(written)})[{number}]"
    return QueryRelation(context.project("values", values, node, computed), tuple(columns))


def range_relation(context: SqlContext, call: exp.Expr) -> QueryRelation:
    """The table function range(end), or range(start, end, step)."""
    from sqlglot import exp

    numbers = []
    for argument in call.expressions:
        negated = isinstance(argument, exp.Neg)
        literal = argument.this if negated else argument
        if not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdecimal():
            raise refuse(argument, "range() is supported only with literal whole numbers")
        numbers.append(-int(literal.name) if negated else int(literal.name))
    if not 1 <= len(numbers) <= 3:
        raise refuse(call, "range() needs one to three numbers: start, end and step")
    start, end = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else 1
    if step == 0:
        raise refuse(call, "the step of range() cannot be 0")
    found = range(start, end, step)
    if len(found) > _LONGEST_RANGE:
        raise refuse(call, f"range() is supported only up to {_LONGEST_RANGE:,} rows", "make it a source")
    listed = f"sequence({found[0]}L, {found[-1]}L, {step}L)" if found else "array_repeat(0L, 0)"
    node, number = repeat_rows(context, call, one_row(context, call), "rows", listed)
    column = BoundColumn("id", context.names.fresh("range", "id"))
    return QueryRelation(context.project("range", call, node, {column.internal: number}), (column,))


def _refuse_mixed_literals(cells: list[exp.Expr]) -> None:
    """Spark refuses a column of texts and numbers in VALUES, and takes it in array()."""
    from sqlglot import exp

    literals = [cell for cell in cells if isinstance(cell, exp.Literal)]
    other = next((each for each in literals if each.is_string != literals[0].is_string), None)
    if other is not None:
        raise refuse(other, "VALUES has texts and numbers in one column")
