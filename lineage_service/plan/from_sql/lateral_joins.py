"""LATERAL subqueries in FROM: their rows, joined with the rows that they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.correlation import outer_columns_read, subquery_rows
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts
from lineage_service.plan.from_sql.from_entry import FromEntry, cross_join, join_entries, scope_of
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.scopes import Scope, ScopedRelation, renamed_columns
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.nodes import How, Join
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp


def lateral_entry(context: SqlContext, lateral: exp.Expr, before: Sequence[FromEntry], ctes: Ctes) -> FromEntry:
    """`, LATERAL (…)`: an entry of its own, linked with the values that it reads of the entries before it."""
    query = _query_of(lateral)
    scope = scope_of(before, None)
    block = BlockState(context, ctes, scope, before[0].node, ExpressionTexts(context, scope))
    read = frozenset(outer_columns_read(block, query))
    needed = [entry for entry in before if entry.internals & read]
    joined = needed[0] if needed else before[0]
    for entry in needed[1:]:
        joined = cross_join(context, lateral, joined, entry, None)
    block.node = joined.node
    rows = subquery_rows(block, query)
    links = tuple((f"{outer} <=> {inner}", frozenset({outer, inner})) for outer, inner in rows.values.items())
    columns = renamed_columns(rows.relation, lateral.args.get("alias"))
    return FromEntry(rows.relation.node, (ScopedRelation(lateral.alias or None, columns),), columns, links=links)


def lateral_join(context: SqlContext, join: exp.Expr, entries: list[FromEntry], ctes: Ctes) -> None:
    """`JOIN LATERAL (…)` and `LEFT JOIN LATERAL (…)`."""
    lateral = join.this
    side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
    if (side, kind) not in (("", ""), ("", "INNER"), ("", "CROSS"), ("LEFT", ""), ("LEFT", "OUTER")):
        raise refuse(join, f"{' '.join(filter(None, (side, kind)))} JOIN LATERAL is not supported in sql steps")
    if join.args.get("using") or join.args.get("method"):
        raise refuse(join, "a NATURAL or USING join with a LATERAL subquery is not supported in sql steps", "write ON")
    join_entries(context, join, entries)
    left = entries[0]
    scope = left.scope(None)
    block = BlockState(context, ctes, scope, left.node, ExpressionTexts(context, scope))
    rows = subquery_rows(block, _query_of(lateral))
    columns = renamed_columns(rows.relation, lateral.args.get("alias"))
    relations = (*left.relations, ScopedRelation(lateral.alias or None, columns))
    visible = left.visible + columns
    conditions = [f"{outer} <=> {inner}" for outer, inner in rows.values.items()]
    on = join.args.get("on")
    if on is not None and SPAN in on.meta:  # where there is no ON, the parser puts true
        conditions.append(ExpressionTexts(context, Scope(relations, visible, None, left.hidden)).condition(on))
    how: How = "left" if side else "inner" if conditions else "cross"
    condition = context.scalar(" AND ".join(conditions) or "true", join) if how != "cross" else None
    node = context.make(Join, "join", join, left.node, rows.relation.node, how, condition, ())
    entries[:] = [FromEntry(node, relations, visible, left.hidden, left.carried, left.links)]


def _query_of(lateral: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    query = lateral.this
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Query) or lateral.args.get("view"):
        raise refuse(lateral, "LATERAL with a function is not supported in sql steps",
                     "write LATERAL VIEW [OUTER] explode(…) t AS x behind the FROM, or a LATERAL subquery")  # fmt: skip
    return query
