"""What is refused of a query: the construct, its place, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp


class SqlRefusal(Exception):
    """A query, or a part of it, that is wrong or cannot be compiled exactly; `offset` is its place in the text."""

    def __init__(self, message: str, offset: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.offset, self.hint = message, offset, hint


class UnknownName(SqlRefusal):
    """A column that no relation here has; a query around this one may have it."""

    @property
    def name(self) -> str:
        return self.message.partition("'")[2].partition("'")[0]


def offset_of(node: exp.Expr) -> int:
    """Where a node of the tree begins in the text."""
    if SPAN in node.meta:
        return int(node.meta[SPAN][0])
    found = [
        int(each.meta[SPAN][0] if SPAN in each.meta else each.meta["start"])
        for each in node.walk()
        if SPAN in each.meta or "start" in each.meta
    ]
    return min(found, default=0)


def refuse(node: exp.Expr, message: str, hint: str | None = None) -> SqlRefusal:
    return SqlRefusal(message, offset_of(node), hint)


# Parts of a SELECT that are compiled; what else sqlglot reads into one is refused by name.
_SELECT_PARTS = frozenset(
    ["with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "qualify", "windows", "order",
     "limit", "offset", "laterals", "sort", "cluster", "distribute", "hint"]
)  # fmt: skip
_SET_PARTS = frozenset(["with_", "this", "expression", "distinct", "by_name", "order", "limit", "offset"])
_NAMES = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "hint": "a hint",
    "pivots": "PIVOT or UNPIVOT",
    "sample": "TABLESAMPLE",
    "into": "SELECT INTO",
    "kind": "SELECT AS STRUCT",
    "by_name": "BY NAME",
    "version": "a version of a table",
}
_HINTS = {
    "laterals": "use a step with `op: explode` before this one",
    "hint": "leave it away: it does not change the rows",
    "sort": "ORDER BY gives the whole result an order",
    "by_name": "use a step with `op: union`, which goes by name",
}


def check_parts(query: exp.Expr) -> None:
    """SqlRefusal for a clause of a SELECT or a set operation that is not compiled."""
    from sqlglot import exp

    known = _SELECT_PARTS if isinstance(query, exp.Select) else _SET_PARTS
    for key, value in query.args.items():
        if not value or key in known:
            continue
        first = value[0] if isinstance(value, list) else value
        place = first if isinstance(first, exp.Expression) and _has_place(first) else query
        name = _NAMES.get(key, key.strip("_").upper())
        raise refuse(place, f"{name} is not compiled in an sql step", _HINTS.get(key))
    if query.args.get("by_name"):
        raise refuse(query, "BY NAME is not compiled in an sql step", _HINTS["by_name"])


def _has_place(node: exp.Expr) -> bool:
    return any(SPAN in each.meta or "start" in each.meta for each in node.walk())
