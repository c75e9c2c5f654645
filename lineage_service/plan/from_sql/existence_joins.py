"""IN and EXISTS as conditions that are joined by AND: semi joins and, negated, anti joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_sql.block_state import BlockState, type_of
from lineage_service.plan.from_sql.correlation import uncorrelated_rows
from lineage_service.plan.from_sql.expression_texts import operand, subqueries_in
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.select_list import select_items
from lineage_service.plan.from_sql.subquery_shapes import compile_plain_from_and_where, is_plain, texts_of_both
from lineage_service.plan.nodes import How, Join, Node

if TYPE_CHECKING:
    from sqlglot import exp


def exists_join(block: BlockState, place: exp.Expr, query: exp.Expr, negated: bool) -> bool:
    """Keeps the rows for which EXISTS holds; False where it takes a mark, since the subquery is correlated above its
    WHERE."""
    inner = compile_plain_from_and_where(block, query) if is_plain(block, query) else None
    if inner is None:
        relation = uncorrelated_rows(block, query)
        if relation is not None:
            _existence_join(block, place, relation.node, ["true"], negated)
        return relation is not None
    check_unread_items(block, inner, query)
    _existence_join(block, place, inner.node, correlated_conditions(block, inner) or ["true"], negated)
    return True


def in_join(block: BlockState, place: exp.In, query: exp.Expr, negated: bool) -> bool:
    """Keeps the rows for which IN holds; False where it takes a mark, as above."""
    left = [block.texts.text(each) for each in compared_values(place)]
    conditions: list[str] = []
    plain = plain_values(block, query)
    if plain is None:
        relation = uncorrelated_rows(block, query)
        if relation is None:
            return False
        node, right = relation.node, [column.internal for column in relation.columns]
    else:
        inner, values = plain
        both = texts_of_both(block, inner)
        right = [both.text(item) for item in values]
        node, conditions = inner.node, correlated_conditions(block, inner)
    check_operands(place, block.node, left, node, right)
    equal = [f"{operand(one)} = {operand(other)}" for one, other in zip(left, right, strict=True)]
    if negated:
        # As Spark has it: a comparison that is unknown keeps the row out too.
        equal = [f"({each} OR ({each}) IS NULL)" for each in equal]
    _existence_join(block, place, node, [*equal, *conditions], negated)
    return True


def compared_values(place: exp.In) -> list[exp.Expr]:
    """The values on the left of IN."""
    from sqlglot import exp

    return list(place.this.expressions) if isinstance(place.this, exp.Tuple) else [place.this]


def plain_values(block: BlockState, query: exp.Expr) -> tuple[BlockState, list[exp.Expr]] | None:
    """FROM and WHERE of a subquery of IN, and the expressions that it lists, where it has nothing else."""
    from sqlglot import exp

    if not is_plain(block, query) or any(isinstance(item, exp.Star) or item.is_star for item in query.expressions):
        return None
    values = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    if any(True for value in values for _ in subqueries_in(value)):
        return None
    inner = compile_plain_from_and_where(block, query)
    return (inner, values) if inner is not None else None


def check_operands(place: exp.In, outer: Node, left: list[str], inner: Node, right: list[str]) -> None:
    """SqlRefusal where IN compares what it cannot."""
    if len(left) != len(right):
        raise refuse(place, f"IN compares {len(left)} values with {len(right)} columns of a subquery")
    for one, other in zip(left, right, strict=True):
        kinds = type_of(outer, one), type_of(inner, other)
        families = {family(kinds[0]), family(kinds[1])}
        if None not in families and len(families) > 1:
            raise refuse(
                place,
                f"IN between {kinds[0]} and {kinds[1]} is not supported in sql steps",
                "cast one of them",
            )


def check_unread_items(block: BlockState, inner: BlockState, query: exp.Expr) -> None:
    """Checks the select list of EXISTS. Its values are not used, but it must be valid, and its subqueries contribute
    rows."""
    for item in select_items(inner, query):
        if item.node is not None:
            inner.context.attach_subqueries(inner, item.node)
        texts = replace(texts_of_both(block, inner), computed=inner.texts.computed, aliases=inner.texts.aliases)
        inner.context.scalar(item.text(replace(inner, texts=texts)), item.place)


def correlated_conditions(block: BlockState, inner: BlockState) -> list[str]:
    """The correlated conditions of a subquery, as text over the columns of both queries."""
    texts = texts_of_both(block, inner)
    return [texts.condition(condition) for condition in inner.correlated]


def _existence_join(block: BlockState, place: exp.Expr, node: Node, conditions: list[str], negated: bool) -> None:
    how: How = "anti" if negated else "semi"
    on = block.context.scalar(" AND ".join(conditions), place)
    block.node = block.context.make(Join, how, place, block.node, node, how, on, ())
