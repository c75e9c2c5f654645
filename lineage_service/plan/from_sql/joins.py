"""Joins of a FROM, and its comma list: relations whose columns have names of their own in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean, join_names
from lineage_service.plan.from_sql.block_state import columns_read
from lineage_service.plan.from_sql.constant_rows import one_row
from lineage_service.plan.from_sql.from_entry import FromEntry, join_entries, scope_of
from lineage_service.plan.from_sql.from_tables import compile_entry
from lineage_service.plan.from_sql.join_conditions import JoinCondition
from lineage_service.plan.from_sql.lateral_joins import lateral_entry, lateral_join
from lineage_service.plan.from_sql.pivots import pivoted
from lineage_service.plan.from_sql.refusals import offset_of, refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, QueryRelation, Scope, ScopedRelation, renamed_columns
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.nodes import How, Join, NamedExpression, Node, Project, WithColumns
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp

_HOW: dict[tuple[str, str], How] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "cross",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}


def compile_from(context: SqlContext, select: exp.Expr, ctes: Ctes, parent: Scope | None) -> list[FromEntry]:
    """The entries of the comma list, each with the joins that belong to it."""
    from sqlglot import exp

    clause = select.args.get("from_")
    if clause is None:
        return [FromEntry(one_row(context, select), (), ())]
    hints = _join_hints(select)
    entries = [_with_hint(context, clause.this, _relation(context, clause.this, ctes, parent), hints)]
    for join in select.args.get("joins") or ():
        is_entry = context.sql.text[offset_of(join)] == ","
        if isinstance(join.this, exp.Lateral):
            if is_entry:
                entries.append(lateral_entry(context, join.this, entries, ctes))
            else:
                lateral_join(context, join, entries, ctes)
            continue
        right = _with_hint(context, join.this, _relation(context, join.this, ctes, parent), hints)
        if is_entry:
            entries.append(right)
        else:
            _add_join(context, join, entries, right, ctes, parent)
    return entries


_JOIN_HINTS = {"broadcast": "broadcast", "broadcastjoin": "broadcast", "mapjoin": "broadcast", "merge": "merge",
               "shuffle_merge": "merge", "mergejoin": "merge", "shuffle_hash": "shuffle_hash",
               "shuffle_replicate_nl": "shuffle_replicate_nl"}  # fmt: skip


def _join_hints(select: exp.Expr) -> dict[str, str]:
    """What hints say of the entries of a FROM, by name. Others are left away: they do not change the rows either."""
    hint = select.args.get("hint")
    found: dict[str, str] = {}
    for each in hint.expressions if hint is not None else ():
        name = _JOIN_HINTS.get(each.name.lower())
        if name is not None:
            found |= {table.name.lower(): name for table in each.expressions}
    return found


def _with_hint(context: SqlContext, place: exp.Expr, entry: FromEntry, hints: dict[str, str]) -> FromEntry:
    names = [(each.alias or "").lower() for each in entry.relations]
    hint = next((hints[name] for name in names if name in hints), None)
    if hint is None:
        return entry
    columns = tuple(NamedExpression(name, context.scalar(name, place)) for name in entry.node.schema.names)
    return replace(entry, node=context.make(Project, "hint", place, entry.node, columns, hint))


def _relation(context: SqlContext, item: exp.Expr, ctes: Ctes, parent: Scope | None) -> FromEntry:
    """An entry, or a join in parentheses, which an alias makes one relation; behind that its PIVOT clauses."""
    from sqlglot import exp

    joins = list(item.args.get("joins") or ())
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table | exp.Subquery):
        entry = _relation(context, item.this, ctes, parent)
        alias = item.args.get("alias")
        if alias is not None:
            columns = renamed_columns(QueryRelation(entry.node, entry.visible), alias)
            entry = replace(entry, relations=(ScopedRelation(alias.name, columns),), visible=columns, hidden=())
    else:
        entry = compile_entry(context, item, ctes, parent)
    for pivot in item.args.get("pivots") or ():
        entry = pivoted(context, entry, pivot)
    if joins:
        entries = [entry]
        for join in joins:
            _add_join(context, join, entries, _relation(context, join.this, ctes, parent), ctes, parent)
        (entry,) = entries
    return entry


def _refuse_pivoted_side(join: exp.Expr) -> None:
    """PIVOT behind a table that is joined is read by Spark as one of the whole join, and not at all before ON."""
    for pivot in join.this.args.get("pivots") or ():
        word = "UNPIVOT" if pivot.args.get("unpivot") else "PIVOT"
        hint = f"put the table and its {word} into a derived table: JOIN (SELECT * FROM … {word} (…)) AS …"
        if join.args.get("on") is not None or join.args.get("using"):
            raise refuse(pivot, f"Spark cannot read {word} between a joined table and its condition", hint)
        if word == "PIVOT":
            raise refuse(pivot, "PIVOT behind a join is one of the whole join in Spark, which is not supported", hint)


def _add_join(
    context: SqlContext, join: exp.Expr, entries: list[FromEntry], right: FromEntry, ctes: Ctes, parent: Scope | None
) -> None:
    """Joins an entry to all before it: in Spark a comma binds like CROSS JOIN.

    It is joined to the last one alone where that gives the same, so that conditions of WHERE can still join the others.
    """
    _refuse_pivoted_side(join)
    scope = scope_of([*entries, right], parent)
    on = join.args.get("on")
    reads = columns_read(on, scope)[0] if on is not None else frozenset[str]()
    by_names = join.args.get("using") or str(join.args.get("method") or "").upper() == "NATURAL"
    keeps_right_rows = str(join.args.get("side") or "").upper() in ("RIGHT", "FULL")
    if by_names or keeps_right_rows or not reads <= entries[-1].internals | right.internals:
        join_entries(context, join, entries)
    entries[-1] = replace(_join(context, join, entries[-1], right, ctes, scope), links=entries[-1].links)


def _join(
    context: SqlContext, join: exp.Expr, left: FromEntry, right: FromEntry, ctes: Ctes, scope: Scope
) -> FromEntry:
    """`scope`: what names in its condition may mean."""
    if left.carried or right.carried:
        raise refuse(
            join,
            "a join with a derived table that reads the enclosing query is not supported in sql steps",
            "compare the columns in the WHERE of the subquery",
        )
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    if right.lifted or (left.lifted and (side in ("RIGHT", "FULL") or method or join.args.get("using"))):
        raise refuse(join, "a join after one whose ON reads the enclosing query is not supported in sql steps",
                     "compare with the enclosing query in WHERE")  # fmt: skip
    how = _HOW.get((side, kind))
    if how is None or method not in ("", "NATURAL"):
        raise refuse(join, f"{' '.join(filter(None, (method, side, kind)))} JOIN is not supported in sql steps")
    for key, value in join.args.items():
        if value and key not in ("this", "method", "side", "kind", "on", "using"):
            raise refuse(join, f"{key.strip('_').upper()} of a join is not supported in sql steps")
    if method == "NATURAL" or join.args.get("using"):
        return _join_by_names(context, join, left, right, how)
    relations = left.relations + right.relations
    hidden, visible = left.hidden + right.hidden, left.visible + right.visible
    condition, read = None, None
    on = join.args.get("on")
    if on is not None and SPAN in on.meta:  # where there is no ON, the parser puts true
        if how == "cross":
            how = "inner"
        read = JoinCondition.read(context, ctes, on, how, scope, left, right)
        left, right, condition = read.left, read.right, context.scalar(read.text, on)
    elif how == "inner":
        how = "cross"
    elif how != "cross":
        raise refuse(join, f"a {how} join without a condition is not supported in sql steps", "write ON true")
    node: Node = context.make(Join, "join", join, left.node, right.node, how, condition, ())
    if read is not None:
        node = read.keep_joined(node)
    lifted = (*left.lifted, *right.lifted, *(read.lifted if read is not None else ()))
    if how in ("semi", "anti"):
        return FromEntry(node, left.relations, left.visible, left.hidden, lifted=lifted)
    return FromEntry(node, relations, visible, hidden, lifted=lifted)


def _join_by_names(context: SqlContext, join: exp.Expr, left: FromEntry, right: FromEntry, how: How) -> FromEntry:
    """USING and NATURAL: the columns are compared by name, and are there once."""
    using = [each.name for each in join.args.get("using") or ()]
    if not using:
        others = {(column.name or "").lower() for column in right.visible}
        using = [column.name for column in left.visible if column.name and column.name.lower() in others]
        if not using:
            raise refuse(join, "a NATURAL JOIN of relations that share no column", "write CROSS JOIN, or ON")
    pairs = [(_single(join, left, name), _single(join, right, name)) for name in using]
    on = context.scalar(" AND ".join(f"{one.internal} = {other.internal}" for one, other in pairs), join)
    how = "inner" if how == "cross" else how
    node: Node = context.make(Join, "join", join, left.node, right.node, how, on, ())
    keys = [other if how == "right" else one for one, other in pairs]
    if how == "full":
        keys = [BoundColumn(one.name, context.names.fresh("key", one.name)) for one, _ in pairs]
        named = tuple(
            NamedExpression(key.internal, context.scalar(f"coalesce({one.internal}, {other.internal})", join))
            for key, (one, other) in zip(keys, pairs, strict=True)
        )
        node = context.make(WithColumns, "using", join, node, named)
    used = {column.internal for pair in pairs for column in pair}
    rest = [column for column in left.visible if column.internal not in used]
    if how in ("semi", "anti"):
        return FromEntry(node, left.relations, (*keys, *rest), left.hidden)
    rest += [column for column in right.visible if column.internal not in used]
    shown = {column.internal for column in keys}
    first = [
        column
        for column in (*(one for one, _ in pairs), *(other for _, other in pairs))
        if column.internal not in shown
    ]
    hidden = (*first, *left.hidden, *right.hidden)
    return FromEntry(node, left.relations + right.relations, (*keys, *rest), hidden)


def _single(join: exp.Expr, entry: FromEntry, name: str) -> BoundColumn:
    found = [column for column in entry.visible if (column.name or "").lower() == name.lower()]
    if len(found) != 1:
        names = [column.name for column in entry.visible if column.name]
        what = "ambiguous" if found else "unknown"
        raise refuse(join, f"{what} column '{name}' in USING; columns there: {join_names(names)}",
                     did_you_mean(name, names))  # fmt: skip
    return found[0]


def join_order(entries: Sequence[FromEntry], reads: Sequence[frozenset[str]]) -> list[int]:
    """The order in which the entries are joined: where possible, a condition compares each with earlier ones."""
    order, waiting = [0], list(range(1, len(entries)))
    while waiting:
        seen = frozenset[str]().union(*(entries[index].internals for index in order))
        linked = (
            index
            for index in waiting
            if any(each & seen and each & entries[index].internals and each <= seen | entries[index].internals
                   for each in reads)
        )  # fmt: skip
        chosen = next(linked, waiting[0])
        order.append(chosen)
        waiting.remove(chosen)
    return order
