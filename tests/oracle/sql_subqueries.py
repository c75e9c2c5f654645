"""Subqueries inside expressions: their values and what contributes, from section 8 of the contract.

One rule covers all predicates: the matching rows contribute where there are any, else the subquery influences by
absence. A conjunct that kept its row has matching rows under IN and EXISTS, and has none under NOT IN and NOT EXISTS, so
this is the semi join, the anti join and the mark join alike. All are computed for every row, whatever the rest of the
expression gives.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from sqlglot import exp

from tests.oracle.reference_expressions import STRICT, Context, value_of
from tests.oracle.reference_values import Unsupported, equal
from tests.oracle.sql_rows import MoreThanOneRow, Relation, RowScope, SqlRow, Trace

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


class Queries(Protocol):
    """What the predicates need of the interpreter."""

    def subquery(self, query: exp.Expression, scope: RowScope) -> Relation: ...
    def sources_of(self, query: exp.Expression) -> frozenset[str]: ...


def fill_subqueries(node: exp.Expression | None, scope: RowScope, queries: Queries) -> None:
    """Compute every subquery of an expression for this row: the value goes to `known`, the lineage to the row."""
    if node is None or id(node) in scope.known:
        return
    operands = operands_of(node)
    for operand in operands if operands is not None else node.iter_expressions():
        fill_subqueries(operand, scope, queries)
    if operands is not None:
        scope.known[id(node)] = subquery_value(node, scope, queries)


def operands_of(node: exp.Expression) -> list[exp.Expression] | None:
    """The expressions outside the subquery; None where the node is no subquery."""
    if isinstance(node, exp.Subquery | exp.Exists):
        return []
    if isinstance(node, exp.In) and node.args.get("query"):
        return [node.this]
    if isinstance(node, COMPARISONS) and isinstance(node.expression, exp.Any | exp.All):
        return [node.this]
    return None


def subquery_value(node: exp.Expression, scope: RowScope, queries: Queries):
    match node:
        case exp.Exists():
            rows = queries.subquery(node.this, scope).rows
            return marked(list(rows), node.this, bool(rows), scope, queries)
        case exp.In():
            value = quantified(node.args["query"], is_in(needle(node, scope)), scope, queries)
            return is_negated(node) if value is None else value
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return compared(node, scope, queries)
        case _:
            return scalar(node, scope, queries)


def scalar(node: exp.Subquery, scope: RowScope, queries: Queries):
    relation = queries.subquery(node, scope)
    if len(relation.columns) != 1:
        raise Unsupported("a scalar subquery of several columns")
    if len(relation.rows) > 1:
        raise MoreThanOneRow(node.sql("spark"))
    for row in relation.rows:
        scope.add(row.trace)
        return row.values[0]
    return None


def needle(node: exp.In, scope: RowScope) -> list:
    parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    return [value_of(part, Context(scope)) for part in parts]


def is_in(values: list) -> Callable[[SqlRow], bool | None]:
    def is_match(row: SqlRow) -> bool | None:
        if len(row.values) != len(values):
            raise Unsupported("IN with another number of columns")
        answers = [equal(a, b) for a, b in zip(values, row.values, strict=True)]
        return False if False in answers else None if None in answers else True

    return is_match


def is_negated(node: exp.Expression) -> bool:
    """NOT reaches this predicate when it is pushed inwards.

    Spark joins for IN and for NOT IN, and a join gives no null: an unknown IN is false, and so is an unknown NOT IN.
    """
    negated, parent = False, node.parent
    while isinstance(parent, exp.Paren | exp.Not | exp.And | exp.Or):
        negated = negated != isinstance(parent, exp.Not)
        parent = parent.parent
    return negated


def quantified(query, is_match: Callable[[SqlRow], bool | None], scope: RowScope, queries: Queries):
    """True where a row matches, null where none does and one may, else false."""
    rows = queries.subquery(query, scope).rows
    answers = [is_match(row) for row in rows]
    value = True if True in answers else None if None in answers else False
    matching = [row for row, answer in zip(rows, answers, strict=True) if answer]
    return marked(matching, query, value, scope, queries)


def compared(node: exp.Expression, scope: RowScope, queries: Queries):
    """`op ANY` is EXISTS of the comparison; `op ALL` is NOT EXISTS of its negation."""
    left, quantifier = value_of(node.this, Context(scope)), node.expression
    function = STRICT[type(node)][1]
    is_all = isinstance(quantifier, exp.All)

    def is_match(row: SqlRow) -> bool | None:
        if left is None or row.values[0] is None:
            return None
        return function(left, row.values[0]) != is_all

    value = quantified(quantifier.this, is_match, scope, queries)
    return value if not is_all or value is None else not value


def marked(matching: list[SqlRow], query: exp.Expression, value, scope: RowScope, queries: Queries):
    if matching:
        scope.add(*(row.trace for row in matching))
    else:
        scope.add(Trace(absence=queries.sources_of(query)))
    return value


def has_subquery(node: exp.Expression) -> bool:
    return node.find(exp.Query) is not None


def outside_subqueries(node: exp.Expression) -> Iterator[exp.Expression]:
    """The nodes of an expression, those of its subqueries left out; a node before its children."""
    yield node
    for child in operands_of(node) or ([] if operands_of(node) is not None else node.iter_expressions()):
        yield from outside_subqueries(child)
