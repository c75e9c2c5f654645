"""What stands before the dot of a column in a query, and which tables it can mean there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.importers.foreign_project import Parts
from lineage_service.importers.table_mentions import place_of
from lineage_service.spec.sql_parsing import parse_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Binding:
    """A name that qualifies columns in a part of a query.

    mention: where the table is named that has this name because it has no alias; None for an alias, and for a part of
        the query.
    """

    word: str  # in lower case
    mention: int | None = None


@dataclass(frozen=True, slots=True)
class Qualifier:
    """The words before the last one of a column: those of a table's name, and perhaps of columns with fields.

    begin: its place in the text; `ends`: where each of its words ends.
    visible: every name that can qualify a column at this place, also of the queries around a subquery.
    """

    begin: int
    ends: tuple[int, ...]
    parts: Parts
    visible: tuple[Binding, ...]


def column_qualifiers(text: str) -> tuple[Qualifier, ...]:
    """All qualifiers of a query, in order of appearance; none if it cannot be parsed."""
    from sqlglot import exp

    try:
        tree = parse_query(text)
    except SqlSyntaxError:
        return ()
    bindings = _bindings(tree)
    found = []
    for column in tree.find_all(exp.Column):
        place = place_of(column.parts[:-1])
        if place is not None:
            ends = tuple(part.meta["end"] + 1 for part in column.parts[:-1])
            found.append(Qualifier(place[0], ends, place[2], tuple(_visible(column, bindings))))
    return tuple(sorted(found, key=lambda each: each.begin))


def _bindings(tree: exp.Expr) -> dict[int, list[Binding]]:
    """The names of each SELECT's FROM, by the identity of the SELECT."""
    from sqlglot import exp

    found: dict[int, list[Binding]] = {}

    def add(node: exp.Expr, mention: int | None = None) -> None:
        found.setdefault(id(node.find_ancestor(exp.Select)), []).append(Binding(node.name.lower(), mention))

    for alias in tree.find_all(exp.TableAlias):
        if not isinstance(alias.parent, exp.CTE):
            add(alias)
    for table in tree.find_all(exp.Table):
        place = place_of(table.parts)
        if place is not None and not table.alias:
            add(table, place[0])
    return found


def _visible(column: exp.Expr, bindings: dict[int, list[Binding]]) -> Iterator[Binding]:
    """The names of the SELECT that a column is in, and of those around it. A CTE, and a query in FROM without LATERAL,
    do not see the names of the SELECT that they are part of.
    """
    from sqlglot import exp

    node, passed = column.parent, False
    while node is not None:
        if isinstance(node, exp.CTE) or (
            isinstance(node, exp.Subquery) and isinstance(node.parent, (exp.From, exp.Join))
        ):
            passed = True
        elif isinstance(node, exp.Select):
            if not passed:
                yield from bindings.get(id(node), ())
            passed = False
        node = node.parent
    yield from bindings.get(id(None), ())
