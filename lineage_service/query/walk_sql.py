"""The SQL of a walk: a chain of joins from the start rows to a dataset's rows. Pure text; start ids are bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Role
from lineage_service.query.home_files import HomeFiles
from lineage_service.query.hop_sql import (
    exclude_refreshed_rows,
    formula_part,
    interval_part,
    pairs_relation,
    refreshed_row_files,
)
from lineage_service.query.lineage_graph import Direction, Place, Way

if TYPE_CHECKING:
    from lineage_service.store.shared_rows import SharedRows

FEW = 50  # so many start ids go into the scan itself, where they prune row groups


@dataclass(frozen=True)
class Start:
    """Where a walk begins: these rids, the rids of a table, or (neither) all rows there are."""

    rids: tuple[int, ...] | None = None
    table: str | None = None
    roles: bool = False  # the table's rows have a role already, in a column of that name
    ids: Any = None  # the rids as an Arrow array, in order: for rows, not for walks

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
    files: HomeFiles,
    *,
    pairs: bool = True,
) -> WalkSql:
    """Pairs from the start to the target.

    Where no `pairs` are wanted, a is 0 throughout, and only what is reached is kept apart.
    """
    if not ways:
        return WalkSql("SELECT 0::BIGINT AS a, 0::BIGINT AS b, 0 AS role WHERE false", [], True)
    if len(ways) == 1 and not start.roles:
        found = _one_hop(ways[0], start, direction, files, pairs=pairs)
        if found is not None:
            return found
    # Groups and sides have no rows of their own: a walk may begin at ids of theirs, but not at all of them.
    everything = start.rids is None and start.table is None
    relation, parameters = start.relation(files.rids(begin) if everything else "")
    names = {begin: "reached0"}
    role = "role" if start.roles else "0"
    ctes = [f"reached0 AS (SELECT {'b' if pairs else '0::BIGINT'} AS a, b, {role} AS role FROM ({relation}))"]
    incoming: dict[Place, list[str]] = {}
    for way in ways:
        if way.start not in names:
            names[way.start] = f"reached{len(names)}"
            ctes.append(f"{names[way.start]} AS ({_merge_parts(incoming[way.start])})")
        few = start.rids if start.few and way.start == begin else None
        incoming.setdefault(way.end, []).append(_part(way, names[way.start], direction, files, few, pairs=pairs))
    final = _merge_parts(incoming[target])
    return WalkSql(f"WITH {', '.join(ctes)} {final}", parameters, False)


def own_ways(ways: Sequence[Way]) -> list[Way]:
    """Those of the ways from a place to another on which rows go as themselves, and not as what a window read."""
    own, reached = [], set[Place]()
    ends = {ways[-1].end} if ways else set()
    for way in reversed(ways):
        if way.role is Role.OWN and way.end in ends:
            own.append(way)
            ends.add(way.start)
    for way in reversed(own):
        if way.start == ways[0].start or way.start in reached:
            reached.add(way.end)
    return [way for way in reversed(own) if way.start == ways[0].start or way.start in reached]


def reverse_ways(ways: Sequence[Way]) -> list[Way]:
    """The same ways from their end to their start, whatever direction they were kept for."""
    return [
        Way(way.end, way.start, way.hop, None if way.shared is None else way.shared.inverse) for way in reversed(ways)
    ]


def has_intervals(ways: Sequence[Way]) -> bool:
    """Whether pairs are multiplied out of a window's intervals on the way: they may be as many as rows squared."""
    return any(way.hop is not None and way.hop.form == "interval" for way in ways)


def _one_hop(way: Way, start: Start, direction: Direction, files: HomeFiles, *, pairs: bool) -> WalkSql | None:
    """One hop that is pairs: they are distinct already, and in files sorted by the side that is looked up."""
    if way.hop is None:
        return None
    relation = pairs_relation(way, direction, files, start.rids if start.few else None)
    if relation is None:
        return None
    near, far = ("a", "b") if direction == "backward" else ("b", "a")
    stored = way.hop.form == "pairs" or (way.hop.form == "keyed" and direction == "backward" and way.hop.backward)
    single = start.rids is not None and len(start.rids) == 1
    kept = f"h.{near} AS a, h.{far} AS b" if pairs else f"0::BIGINT AS a, h.{far} AS b"
    distinct = "" if pairs or single else "DISTINCT "
    select = f"SELECT {distinct}{kept}, {int(way.role)} AS role FROM ({relation}) h"
    presorted = bool(stored) and not distinct and not refreshed_row_files(way.hop)
    if start.rids is not None and start.few:
        marks = ", ".join("?" for _ in start.rids)
        # Not presorted: DuckDB joins with the list, and gives the row groups in any order.
        return WalkSql(f"{select} WHERE h.{near} IN ({marks})", list(start.rids), False)
    if start.rids is None and start.table is None:
        return WalkSql(select, [], presorted)
    rows, parameters = start.relation("")
    return WalkSql(f"{select} SEMI JOIN ({rows}) s ON s.b = h.{near}", parameters, False)


def way_pairs(way: Way, ids: str, direction: Direction, files: HomeFiles) -> str:
    """Pairs (a, b, role) of one way that is no intervals, a among the ids (column b) of a relation."""
    return _part(way, f"(SELECT b AS a, b, 0 AS role FROM {ids})", direction, files, None, pairs=True)


def _part(
    way: Way, before: str, direction: Direction, files: HomeFiles, few: tuple[int, ...] | None, *, pairs: bool
) -> str:
    """Pairs that one way adds, from the relation of pairs before it."""
    role = f"greatest(r.role, {int(way.role)}) AS role"
    if way.hop is None:
        return _shared_part(way, before, role)
    if way.hop.form == "interval":
        return interval_part(way.hop, before, role, direction, files, pairs=pairs)
    relation = pairs_relation(way, direction, files, few)
    if relation is not None:
        near, far = ("a", "b") if direction == "backward" else ("b", "a")
        return f"SELECT r.a, h.{far} AS b, {role} FROM {before} r JOIN ({relation}) h ON h.{near} = r.b"
    if direction == "forward":
        return exclude_refreshed_rows(way.hop, _pairless_part(way, way.hop, before, role, direction, files), "b", files)
    if refreshed_row_files(way.hop):
        before = f"({exclude_refreshed_rows(way.hop, f'SELECT * FROM {before}', 'b', files)})"
    return _pairless_part(way, way.hop, before, role, direction, files)


def _shared_part(way: Way, before: str, role: str) -> str:
    """The same rows under the rids that they have elsewhere."""
    rid, condition = translated_rid("r.b", way.shared)
    return f"SELECT r.a, {rid} AS b, {role} FROM {before} r{condition}"


def translated_rid(rid: str, shared: SharedRows | None) -> tuple[str, str]:
    """SQL of the rid that a row has elsewhere, and what stands behind FROM so that only shared rows are left."""
    if shared is None or shared.all:
        return rid, ""
    runs = shared.runs
    if len(runs.first) == 1:
        first, end, shift = int(runs.first[0]), int(runs.end[0]), int(runs.shift[0])
        return f"({rid} + {shift})", f" WHERE {rid} >= {first} AND {rid} < {end}"
    # As texts: DuckDB reads one much faster than as many literals.
    lists = (f"unnest('[{','.join(map(str, ids.tolist()))}]'::BIGINT[])" for ids in (runs.first, runs.end, runs.shift))
    named = ", ".join(f"{ids} AS {name}" for ids, name in zip(lists, ("first", "past", "shift"), strict=True))
    return f"({rid} + s.shift)", f" JOIN (SELECT {named}) s ON {rid} >= s.first AND {rid} < s.past"


def _pairless_part(way: Way, hop: HopRecord, before: str, role: str, direction: Direction, files: HomeFiles) -> str:
    """What a form without pairs of its own adds."""
    if hop.form == "formula":
        return formula_part(hop, before, role, direction)
    if hop.form == "empty":
        return f"SELECT r.a, r.b, {role} FROM {before} r WHERE false"
    many = (hop.form == "constant") == (direction == "forward")
    if many:  # the one id of a side stands for all rows of the dataset at the other end
        return f"SELECT r.a, e.b, {role} FROM {before} r CROSS JOIN ({files.rids(way.end)}) e"
    return f"SELECT r.a, 0::BIGINT AS b, {role} FROM {before} r"


def _merge_parts(parts: Sequence[str]) -> str:
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) GROUP BY a, b"
