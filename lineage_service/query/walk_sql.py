"""The SQL of a walk: a chain of joins from the start rows to a dataset's rows. Pure text; start ids are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lineage_service.query.graph import Direction, Place, Way
from lineage_service.store.engine import file_literal

FEW = 50  # so many start ids go into the scan itself, where they prune row groups


@dataclass(frozen=True)
class Start:
    """Where a walk begins: these rids, the rids of a table, or (neither) all rows there are."""

    rids: tuple[int, ...] | None = None
    table: str | None = None
    roles: bool = False  # the table's rows have a role already, in a column of that name

    @property
    def few(self) -> bool:
        return self.rids is not None and len(self.rids) <= FEW

    def relation(self, all_rids: str) -> tuple[str, list[object]]:
        """The start rids as a relation with column b."""
        if self.rids is not None:
            return "SELECT unnest(?::BIGINT[]) AS b", [list(self.rids)]
        columns = "b, role" if self.roles else "b"
        return (f"SELECT {columns} FROM {self.table}", []) if self.table is not None else (all_rids, [])


@dataclass(frozen=True)
class WalkSql:
    """Finished SQL: distinct (a, b, role), a the start's rid, b the reached one; and its parameters."""

    text: str
    parameters: list[object]
    presorted: bool


def walk_sql(
    ways: Sequence[Way],
    start: Start,
    begin: Place,
    target: Place,
    direction: Direction,
    path_of: Callable[[str], str],
    rids_of: Callable[[Place], str],
    *,
    pairs: bool = True,
) -> WalkSql:
    """Pairs from the start to the target. `path_of` finds an index file, `rids_of` gives all rids of a dataset.

    Where no `pairs` are wanted, a is 0 throughout, and only what is reached is kept apart.
    """
    if not ways:
        return WalkSql("SELECT 0::BIGINT AS a, 0::BIGINT AS b, 0 AS role WHERE false", [], True)
    if len(ways) == 1 and ways[0].hop is not None and ways[0].hop.form == "pairs" and not start.roles:
        return _one_hop(ways[0], start, direction, path_of, pairs=pairs)
    relation, parameters = start.relation(rids_of(begin))
    names = {begin: "reached0"}
    role = "role" if start.roles else "0"
    ctes = [f"reached0 AS (SELECT {'b' if pairs else '0::BIGINT'} AS a, b, {role} AS role FROM ({relation}))"]
    incoming: dict[Place, list[str]] = {}
    for way in ways:
        if way.start not in names:
            names[way.start] = f"reached{len(names)}"
            ctes.append(f"{names[way.start]} AS ({_merged(incoming[way.start])})")
        incoming.setdefault(way.end, []).append(_part(way, names[way.start], direction, path_of, rids_of))
    final = _merged(incoming[target])
    return WalkSql(f"WITH {', '.join(ctes)} {final}", parameters, False)


def _one_hop(way: Way, start: Start, direction: Direction, path_of: Callable[[str], str], *, pairs: bool) -> WalkSql:
    """One stored hop: its pairs are distinct already, and sorted by the side that is looked up."""
    near, far, file = _sides(way, direction, path_of)
    single = start.rids is not None and len(start.rids) == 1
    kept = f"h.{near} AS a, h.{far} AS b" if pairs else f"0::BIGINT AS a, h.{far} AS b"
    distinct = "" if pairs or single else "DISTINCT "
    select = f"SELECT {distinct}{kept}, {int(way.role)} AS role FROM read_parquet({file}) h"
    if start.rids is not None and start.few:
        marks = ", ".join("?" for _ in start.rids)
        return WalkSql(f"{select} WHERE h.{near} IN ({marks})", list(start.rids), not distinct)
    if start.rids is None and start.table is None:
        return WalkSql(select, [], not distinct)
    relation, parameters = start.relation("")
    return WalkSql(f"{select} SEMI JOIN ({relation}) s ON s.b = h.{near}", parameters, False)


def _sides(way: Way, direction: Direction, path_of: Callable[[str], str]) -> tuple[str, str, str]:
    """Columns to look up by and to arrive at, and the file that is sorted for it."""
    assert way.hop is not None
    if direction == "backward":
        return "a", "b", file_literal(path_of(str(way.hop.backward)))
    return "b", "a", file_literal(path_of(str(way.hop.forward)))


def _part(
    way: Way, before: str, direction: Direction, path_of: Callable[[str], str], rids_of: Callable[[Place], str]
) -> str:
    """Pairs that one way adds, from the relation of pairs before it."""
    role = f"greatest(r.role, {int(way.role)}) AS role"
    if way.hop is None:
        return f"SELECT r.a, r.b, {role} FROM {before} r"
    if way.hop.form == "pairs":
        near, far, file = _sides(way, direction, path_of)
        return f"SELECT r.a, h.{far} AS b, {role} FROM {before} r JOIN read_parquet({file}) h ON h.{near} = r.b"
    if way.hop.form == "empty":
        return f"SELECT r.a, r.b, {role} FROM {before} r WHERE false"
    many = (way.hop.form == "constant") == (direction == "forward")
    if many:  # the one id of a side stands for all rows of the dataset at the other end
        return f"SELECT r.a, e.b, {role} FROM {before} r CROSS JOIN ({rids_of(way.end)}) e"
    return f"SELECT r.a, 0::BIGINT AS b, {role} FROM {before} r"


def _merged(parts: Sequence[str]) -> str:
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) GROUP BY a, b"
