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
    """A column that no relation here has; an enclosing query may have it."""

    @property
    def name(self) -> str:
        return self.message.partition("'")[2].partition("'")[0]


def offset_of(node: exp.Expr) -> int:
    """Where a node of the tree begins in the text; for one that the parser has added, where the node around it does."""
    place: exp.Expr | None = node
    while place is not None:
        if SPAN in place.meta:
            return int(place.meta[SPAN][0])
        found = [
            int(each.meta[SPAN][0] if SPAN in each.meta else each.meta["start"])
            for each in place.walk()
            if SPAN in each.meta or "start" in each.meta
        ]
        if found:
            return min(found)
        place = place.parent
    return 0


def refuse(node: exp.Expr, message: str, hint: str | None = None) -> SqlRefusal:
    return SqlRefusal(message, offset_of(node), hint)


# Clauses of a query that are compiled; all others are refused by name.
_SELECT_PARTS = frozenset(
    ["with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "qualify", "windows", "order",
     "limit", "offset", "laterals", "sort", "cluster", "distribute", "hint"]
)  # fmt: skip
_SET_PARTS = frozenset(["with_", "this", "expression", "distinct", "order", "limit", "offset"])
_VALUES_PARTS = frozenset(["with_", "expressions", "alias", "order", "limit", "offset"])
_NAMES = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT or UNPIVOT",
    "sample": "TABLESAMPLE",
    "into": "SELECT INTO",
    "kind": "SELECT AS STRUCT",
    "by_name": "BY NAME",
    "version": "a version of a table",
}
_HINTS = {
    "sort": "ORDER BY gives the whole result an order",
    "by_name": "use a step with `op: union`, which goes by name",
}


def check_parts(query: exp.Expr) -> None:
    """SqlRefusal for a clause of a SELECT, a set operation or VALUES that is not compiled."""
    from sqlglot import exp

    known = _SELECT_PARTS if isinstance(query, exp.Select) else _SET_PARTS
    known = _VALUES_PARTS if isinstance(query, exp.Values) else known
    for key, value in query.args.items():
        if not value or key in known:
            continue
        first = value[0] if isinstance(value, list) else value
        place = first if isinstance(first, exp.Expression) and _has_place(first) else query
        name = _NAMES.get(key, key.strip("_").upper())
        raise refuse(place, f"{name} is not supported in sql steps", _HINTS.get(key))


def _has_place(node: exp.Expr) -> bool:
    return any(SPAN in each.meta or "start" in each.meta for each in node.walk())
