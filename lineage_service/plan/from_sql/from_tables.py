"""Single entries of a FROM: tables, derived tables, VALUES and range(), under names of their own in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean, join_names
from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_sql.constant_rows import range_relation, values_relation
from lineage_service.plan.from_sql.from_entry import FromEntry
from lineage_service.plan.from_sql.refusals import UnknownName, refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, QueryRelation, Scope, ScopedRelation, renamed_columns
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.schema import ColumnError

if TYPE_CHECKING:
    from sqlglot import exp

_PARTS_OF_A_TABLE = {"db": "a table name with dots", "catalog": "a table name with dots", "sample": "TABLESAMPLE"}
_HINTS = {
    "db": "a table is a source or a step of this workflow, or a CTE",
    "sample": "which rows it takes depends on how the files are split: filter by a hash of a key instead",
}


def compile_entry(context: SqlContext, item: exp.Expr, ctes: Ctes, parent: Scope | None) -> FromEntry:
    """One entry without its joins and its PIVOT."""
    from sqlglot import exp

    alias = item.args.get("alias")
    for key, value in item.args.items():
        if value and key not in ("this", "alias", "pivots", "joins") and not isinstance(item, exp.Values):
            what = _PARTS_OF_A_TABLE.get(key, key.strip("_").upper())
            raise refuse(item, f"{what} is not supported in sql steps", _HINTS.get(key))
    name = alias.name if alias is not None and alias.this is not None else None
    if isinstance(item, exp.Values):
        relation = values_relation(context, item)
    elif isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
        relation, name = _table(context, item, ctes), name or item.name
    elif isinstance(item, exp.Table) and isinstance(item.this, exp.Anonymous) and item.this.name.lower() == "range":
        relation = range_relation(context, item.this)
    elif isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query | exp.Values):
        relation = compile_derived(context, item.this, ctes, parent)
    else:
        named = {"Lateral": "LATERAL", "Unnest": "unnest"}
        what = named.get(type(item).__name__, "this in a FROM")
        what = "a table function" if isinstance(item, exp.Table) else what
        hint = "use LATERAL VIEW" if isinstance(item, exp.Table) else None
        raise refuse(item, f"{what} is not supported in sql steps", hint)
    columns = renamed_columns(relation, alias)
    return FromEntry(relation.node, (ScopedRelation(name, columns),), columns, carried=relation.carried)


def compile_derived(context: SqlContext, query: exp.Expr, ctes: Ctes, parent: Scope | None) -> QueryRelation:
    """A derived table or CTE. Inside a correlated subquery it may read columns of the subquery's enclosing query."""
    try:
        return context.compile_query(context, query, ctes, None)
    except UnknownName:
        if parent is None or parent.offered is None:
            raise
        return context.compile_query(context, query, ctes, parent)


def _table(context: SqlContext, item: exp.Table, ctes: Ctes) -> QueryRelation:
    """A CTE, else a source or step, under fresh names: the same table may be read twice."""
    name = item.name.lower()
    alias = item.alias or item.name
    carried: tuple[str, ...] = ()
    if name in ctes:
        below, columns = ctes[name].node, [(column.name, column.internal) for column in ctes[name].columns]
        carried = ctes[name].carried
    elif name in context.tables:
        below = context.tables[name]
        try:
            columns = [(column.name, column.name) for column in below.schema.unambiguous_columns()]
        except ColumnError as error:
            raise refuse(item, error.message, error.hint) from None
    else:
        known = list(dict.fromkeys([*ctes, *context.tables, *context.other_tables]))
        message = f"unknown table '{item.name}'; sources, steps and CTEs here: {join_names(known)}"
        raise refuse(item, message, did_you_mean(name, known))
    bound = tuple(BoundColumn(shown, context.names.fresh(alias, shown or "column")) for shown, _ in columns)
    texts = {new.internal: quote_identifier(old) for new, (_, old) in zip(bound, columns, strict=True)}
    again = [context.names.fresh("outer", each) for each in carried]
    texts |= dict(zip(again, carried, strict=True))
    return QueryRelation(context.project(alias.lower(), item, below, texts), bound, tuple(again))
