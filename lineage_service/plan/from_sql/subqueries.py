"""Subqueries in expressions: each becomes a column, or a semi or anti join where it is a condition of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.existence_joins import exists_join, in_join
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.scalar_subqueries import attach_scalar
from lineage_service.plan.from_sql.subquery_marks import attach_exists, attach_in
from lineage_service.plan.from_sql.subquery_shapes import spaced_text, without_nots, without_parentheses

if TYPE_CHECKING:
    from sqlglot import exp


def keeps_matching_rows(condition: exp.Expr) -> bool:
    """Whether a condition is IN or EXISTS with a subquery, and is not negated."""
    from sqlglot import exp

    negated, inner = without_nots(condition)
    is_in = isinstance(inner, exp.In) and inner.args.get("query") is not None
    return not negated and (is_in or (isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query)))


def apply_subqueries(block: BlockState, condition: exp.Expr) -> None:
    """Keeps the rows for which a condition with subqueries holds."""
    from sqlglot import exp

    negated, inner = without_nots(condition)
    if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
        if exists_join(block, inner, without_parentheses(inner.this), negated):
            return
    elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
        attach_subqueries(block, inner.this)
        if in_join(block, inner, without_parentheses(inner.args["query"]), negated):
            return
    attach_subqueries(block, condition)
    block.keep_where([block.texts.text(condition)], condition)


def attach_subqueries(block: BlockState, node: exp.Expr) -> None:
    """Joins every subquery of an expression with the rows so far: its value is a column from then on."""
    from sqlglot import exp

    for each in list(_subquery_expressions(block, node)):
        if isinstance(each, exp.Exists):
            attach_exists(block, each, without_parentheses(each.this))
        elif isinstance(each, exp.In):
            attach_subqueries(block, each.this)
            attach_in(block, each, without_parentheses(each.args["query"]))
        else:
            attach_scalar(block, each)


def reuse_subqueries(block: BlockState, attached: Iterable[exp.Expr], readers: Iterable[exp.Expr]) -> None:
    """Subqueries that are written as others are, which are columns already, are these columns."""
    computed = block.texts.computed
    known = {
        spaced_text(block.context, each): computed[id(each)]
        for node in attached
        for each in node.walk()
        if id(each) in computed
    }
    for node in readers:
        for each in list(_subquery_expressions(block, node)):
            for part in (each, each.parent):
                text = spaced_text(block.context, part) if part is not None else None
                if part is not None and text in known:
                    computed[id(part)] = known[text]


def _subquery_expressions(block: BlockState, node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost predicates and scalar subqueries of an expression that are no columns yet."""
    from sqlglot import exp

    if id(node) in block.texts.computed:
        return
    if isinstance(node, exp.Any | exp.All) and isinstance(node.this, exp.Query):
        raise refuse(node, "Spark has no ANY, SOME or ALL with a subquery", "write it with EXISTS, or with min or max")
    is_exists = isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)
    is_in = isinstance(node, exp.In) and node.args.get("query") is not None
    if is_exists or is_in or isinstance(node, exp.Query):
        yield node
        return
    for child in node.iter_expressions():
        yield from _subquery_expressions(block, child)
