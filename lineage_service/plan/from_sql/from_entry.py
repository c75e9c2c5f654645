"""Entries of a FROM: relations joined with each other, and what names in them mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.scopes import BoundColumn, Scope, ScopedRelation
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.nodes import How, Join, Node

if TYPE_CHECKING:
    from sqlglot import exp

Condition = tuple[str, frozenset[str]]  # a condition's text, and the columns that it reads


@dataclass(frozen=True, slots=True)
class FromEntry:
    """One entry of a FROM's comma list, with its joins: a node, and what names in it mean.

    hidden: as in Scope · carried: as in QueryRelation, where a derived table in it reads the enclosing query · links:
    conditions that join it with the entries before it, of a LATERAL subquery · lifted: conditions of ON that read the
    enclosing query; they are applied like conditions of WHERE
    """

    node: Node
    relations: tuple[ScopedRelation, ...]
    visible: tuple[BoundColumn, ...]
    hidden: tuple[BoundColumn, ...] = ()
    carried: tuple[str, ...] = ()
    links: tuple[Condition, ...] = ()
    lifted: tuple[exp.Expr, ...] = ()

    @property
    def internals(self) -> frozenset[str]:
        return frozenset(self.node.schema.names)

    def scope(self, parent: Scope | None) -> Scope:
        return scope_of([self], parent)


def scope_of(entries: Sequence[FromEntry], parent: Scope | None) -> Scope:
    """What names mean over several entries of a FROM."""
    return Scope(
        tuple(relation for entry in entries for relation in entry.relations),
        tuple(column for entry in entries for column in entry.visible),
        parent,
        tuple(column for entry in entries for column in entry.hidden),
    )


def join_entries(context: SqlContext, place: exp.Expr, entries: list[FromEntry]) -> None:
    """Makes one entry of all."""
    while len(entries) > 1:
        entries[:2] = [cross_join(context, place, entries[0], entries[1], None)]


def cross_join(context: SqlContext, place: exp.Expr, left: FromEntry, right: FromEntry, on: str | None) -> FromEntry:
    """Two entries of the comma list; `on` holds the conditions of WHERE that compare them."""
    both, links = left.internals | right.internals, (*left.links, *right.links)
    linking = [text for text, reads in links if reads <= both]
    on = " AND ".join([*linking, *([on] if on is not None else [])]) or None
    condition = context.scalar(on, place) if on is not None else None
    how: How = "cross" if on is None else "inner"
    node = context.make(Join, "join", place, left.node, right.node, how, condition, ())
    carried = left.carried or right.carried
    return FromEntry(
        node,
        left.relations + right.relations,
        left.visible + right.visible,
        left.hidden + right.hidden,
        carried,
        tuple(link for link in links if not link[1] <= both),
        (*left.lifted, *right.lifted),
    )
