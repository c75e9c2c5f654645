"""Determines from the text which dataset the column `_rid` of a subquery belongs to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.query.duckdb_parsing import parse_one
from lineage_service.store.version_scan import RID

if TYPE_CHECKING:
    from sqlglot import exp

_UNKNOWN = "?"


@dataclass(frozen=True)
class RidOrigin:
    """The version of the rows, if known; and the relation, if the subquery only lists its rows."""

    version: str | None
    alone: str | None = None


def origin_of_rids(named: str, versions: Mapping[str, str | None]) -> RidOrigin:
    """The origin of the `_rid` of a SELECT over relations. `versions` gives the version of each relation."""
    tree = parse_one(named)
    found = _origins(tree, versions, {})
    version = next(iter(found)) if len(found) == 1 else None
    return RidOrigin(None if version == _UNKNOWN else version, _alone(tree, versions))


def _alone(tree: exp.Expr, versions: Mapping[str, str | None]) -> str | None:
    """The single relation of a SELECT that only lists its rows."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return None
    asked = {
        name for name, value in tree.args.items() if value and name not in ("expressions", "from_", "kind", "hint")
    }
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if asked or not isinstance(table, exp.Table) or any(table.args.get(name) for name in ("joins", "sample", "pivots")):
        return None
    lists = all(
        isinstance(each, exp.Star) or (each.name.lower() == RID and isinstance(each, exp.Column))
        for each in tree.expressions
    )
    plain = lists and not any(isinstance(each, exp.Star) and any(each.args.values()) for each in tree.expressions)
    return table.name if plain and table.name in versions else None


def _origins(tree: exp.Expr, versions: Mapping[str, str | None], common: Mapping[str, set[str]]) -> set[str]:
    """The versions that the column may belong to, including `_UNKNOWN` if the text does not determine it."""
    from sqlglot import exp

    if clause := tree.args.get("with_"):
        known = dict(common)
        for each in clause.expressions:
            known[each.alias.lower()] = (
                {_UNKNOWN}
                if clause.args.get("recursive") and reads_itself(each)
                else _origins(each.this, versions, known)
            )
        common = known
    if isinstance(tree, exp.Subquery):
        return _origins(tree.this, versions, common)
    if isinstance(tree, exp.SetOperation):
        return _origins(tree.this, versions, common) | _origins(tree.expression, versions, common)
    if not isinstance(tree, exp.Select):
        return {_UNKNOWN}
    tables = _tables(tree, versions, common)
    found: set[str] = set()
    for each in tree.expressions or [exp.Star()]:
        if isinstance(each, exp.Star):
            found |= set().union(*tables.values()) if tables else set()
        elif isinstance(each, exp.Column) and isinstance(each.this, exp.Star):
            found |= tables.get(each.table.lower(), {_UNKNOWN})
        elif each.alias_or_name.lower() == RID:
            inner = each.unalias()
            if not isinstance(inner, exp.Column) or inner.name.lower() != RID:
                found.add(_UNKNOWN)
            elif inner.table:
                found |= tables.get(inner.table.lower(), {_UNKNOWN})
            else:
                found |= set().union(*tables.values()) if tables else {_UNKNOWN}
    return found or {_UNKNOWN}


def reads_itself(common: exp.Expr) -> bool:
    """Whether a common table is recursive."""
    from sqlglot import exp

    return any(table.name.lower() == common.alias.lower() for table in common.this.find_all(exp.Table))


def _tables(
    select: exp.Expr, versions: Mapping[str, str | None], common: Mapping[str, set[str]]
) -> dict[str, set[str]]:
    """The origin of each table of a FROM, by alias."""
    from sqlglot import exp

    sources = [select.args["from_"].this] if select.args.get("from_") else []
    sources += [join.this for join in select.args.get("joins") or []]
    found: dict[str, set[str]] = {}
    for source in sources:
        name = source.alias_or_name.lower()
        if isinstance(source, exp.Table) and source.name in versions:
            found[name] = {versions[source.name] or _UNKNOWN}
        elif isinstance(source, exp.Table) and source.name.lower() in common:
            found[name] = common[source.name.lower()]
        elif isinstance(source, exp.Subquery):
            found[name] = _origins(source.this, versions, common)
        else:
            found[name] = {_UNKNOWN}
    return found
