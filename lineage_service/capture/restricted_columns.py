"""Finds what restricts the values of a column: filters, and semi joins, on whose right side each value must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lineage_service.plan.conjuncts import plain_name
from lineage_service.plan.expressions import Expression
from lineage_service.plan.from_sql.subquery_shapes import are_equal_as_keys
from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Window,
    WithColumns,
)


@dataclass(frozen=True)
class Restriction:
    """A semi join and the column of its right side that a column is compared with, or a filter and its own column."""

    node: Join | Filter
    column: str


def restrictions(node: Node, column: str) -> Iterator[Restriction]:
    """What restricts a column of a node: each of its values passed this, or is null."""
    waiting, seen = [(node, column)], set[tuple[str, str]]()
    while waiting:
        at, name = waiting.pop()
        if (at.id, name.lower()) in seen:
            continue
        seen.add((at.id, name.lower()))
        if isinstance(at, Join) and at.how == "semi":
            yield from (Restriction(at, other) for other in _compared_with(at, name, "left"))
        if isinstance(at, Filter):
            yield Restriction(at, name)
        waiting += _origins(at, name)


def type_of(node: Node, column: str) -> str | None:
    found = node.schema.find(column)
    return found.type.lower() if found is not None and found.type is not None else None


def plain_column(expression: Expression) -> str | None:
    """The column that an expression consists of."""
    refs = expression.columns
    is_plain = len(refs) == 1 and len(refs[0].parts) == 1 and len(expression.tokens) == 1
    return refs[0].parts[0] if is_plain else None


def _origins(node: Node, name: str) -> list[tuple[Node, str]]:
    """Columns of inputs among whose values are all that a column has, null aside. None of an operator that is not
    named here: then nothing is known of the column.
    """
    if isinstance(node, Join):
        return _origins_of_joined(node, name)
    if isinstance(node, Filter | Sort | Limit | Distinct):
        return [(node.input, name)]
    if isinstance(node, Window):
        return [] if _named(node.measures, name) else [(node.input, name)]
    if isinstance(node, Explode):
        return [] if name.lower() == node.alias.lower() else [(node.input, name)]
    if isinstance(node, Project | WithColumns | Aggregate):
        given = (*node.keys, *node.measures) if isinstance(node, Aggregate) else node.columns
        own = _named(given, name)
        if own is None:
            return [(node.input, name)] if isinstance(node, WithColumns) else []
        below = plain_column(own.expression)
        return [] if below is None else [(node.input, below)]
    return []


def _origins_of_joined(join: Join, name: str) -> list[tuple[Node, str]]:
    if join.how in ("semi", "anti"):
        return [(join.left, name)]
    is_left, is_right = (side.schema.find(name) is not None for side in join.inputs)
    if is_left == is_right:
        return []  # a column of `using`: which side it is of depends on the join
    found = [(join.left if is_left else join.right, name)]
    if join.how == "inner":
        other = join.right if is_left else join.left
        found += [(other, each) for each in _compared_with(join, name, "left" if is_left else "right")]
    return found


def _compared_with(join: Join, name: str, side: str) -> Iterator[str]:
    """The columns of the other side that must be equal to a column of this one."""
    if join.equi_condition is None:
        return
    for left, right in join.equi_condition.keys:
        mine, other = (plain_name(each) for each in ((left, right) if side == "left" else (right, left)))
        if mine is None or other is None or mine.lower() != name.lower():
            continue
        one, two = (join.left, join.right) if side == "left" else (join.right, join.left)
        if are_equal_as_keys(type_of(one, mine), type_of(two, other)):
            yield other


def _named(columns: tuple[NamedExpression, ...], name: str) -> NamedExpression | None:
    return next((each for each in columns if each.name.lower() == name.lower()), None)
