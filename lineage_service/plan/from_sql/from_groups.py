"""Entries of a FROM: relations joined with each other, and what names in them mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.scopes import BoundColumn, Scope, ScopedRelation
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import How, Join, Node

if TYPE_CHECKING:
    from sqlglot import exp

Condition = tuple[str, frozenset[str]]  # a condition's text, and the columns that it reads


@dataclass(frozen=True, slots=True)
class FromGroup:
    """One entry of a FROM's comma list, with its joins: a node, and what names in it mean.

    carried: as in QueryRelation, where a derived table in it reads the query around · links: conditions that join it
    with the entries before it, of a LATERAL subquery · lifted: conditions of ON that read the query around, and hold as
    conditions of WHERE do
    """

    node: Node
    relations: tuple[ScopedRelation, ...]
    visible: tuple[BoundColumn, ...]
    merged: bool = False
    carried: tuple[str, ...] = ()
    links: tuple[Condition, ...] = ()
    lifted: tuple[exp.Expr, ...] = ()

    @property
    def internals(self) -> frozenset[str]:
        return frozenset(self.node.schema.names)

    def scope(self, parent: Scope | None) -> Scope:
        return Scope(self.relations, self.visible, parent, self.merged)


def join_entries(context: SqlContext, place: exp.Expr, groups: list[FromGroup]) -> None:
    """Makes one entry of all."""
    while len(groups) > 1:
        groups[:2] = [cross_join(context, place, groups[0], groups[1], None)]


def cross_join(context: SqlContext, place: exp.Expr, left: FromGroup, right: FromGroup, on: str | None) -> FromGroup:
    """Two entries of the comma list; `on` holds the conditions of WHERE that compare them."""
    both, links = left.internals | right.internals, (*left.links, *right.links)
    linking = [text for text, reads in links if reads <= both]
    on = " AND ".join([*linking, *([on] if on is not None else [])]) or None
    condition = context.scalar(on, place) if on is not None else None
    how: How = "cross" if on is None else "inner"
    node = context.make(Join, "join", place, left.node, right.node, how, condition, ())
    carried = left.carried or right.carried
    return FromGroup(
        node,
        left.relations + right.relations,
        left.visible + right.visible,
        left.merged or right.merged,
        carried,
        tuple(link for link in links if not link[1] <= both),
        (*left.lifted, *right.lifted),
    )
