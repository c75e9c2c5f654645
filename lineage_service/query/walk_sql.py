"""The SQL of a walk: a chain of joins from the start rows to the rows of a dataset. Pure text; start ids are bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from lineage_catalog.hop_forms import HopForm
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

FEW = 50  # up to this many start ids are part of the scan, where they prune row groups


@dataclass(frozen=True)
class Start:
    """The start of a walk: these rids, the rids of a table, or (neither) all rows."""

    rids: tuple[int, ...] | None = None
    table: str | None = None
    roles: bool = False  # the table has a column `role`
    ids: Any = None  # the sorted rids as an Arrow array; used for reading rows, not for walks

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
    """Complete SQL with its parameters: distinct (a, b, role), where a is the start's rid and b the reached rid."""

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

    Without `pairs`, a is always 0, and only distinct reached rows are returned.
    """
    if not ways:
        return WalkSql("SELECT 0::BIGINT AS a, 0::BIGINT AS b, 0 AS role WHERE false", [], True)
    if len(ways) == 1 and not start.roles:
        found = _one_hop(ways[0], start, direction, files, pairs=pairs)
        if found is not None:
            return found
    # Groups and sides have no rows of their own: a walk may start at some of their ids, but not at all of them.
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
    """The ways between two places on which rows contribute as themselves, not as rows that a window read."""
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
    """The same ways in the opposite direction, regardless of the direction they are stored for."""
    return [
        Way(way.end, way.start, way.hop, None if way.shared is None else way.shared.inverse) for way in reversed(ways)
    ]


def has_intervals(ways: Sequence[Way]) -> bool:
    """Whether the walk expands window intervals into pairs, of which there may be rows squared."""
    return any(way.hop is not None and way.hop.form is HopForm.INTERVAL for way in ways)


def _one_hop(way: Way, start: Start, direction: Direction, files: HomeFiles, *, pairs: bool) -> WalkSql | None:
    """A walk over one hop that stores pairs. They are distinct, and the files are sorted by the looked-up side."""
    if way.hop is None:
        return None
    relation = pairs_relation(way, direction, files, start.rids if start.few else None)
    if relation is None:
        return None
    near, far = ("a", "b") if direction == "backward" else ("b", "a")
    stored = way.hop.form is HopForm.PAIRS or (
        way.hop.form is HopForm.KEYED and direction == "backward" and way.hop.backward
    )
    single = start.rids is not None and len(start.rids) == 1
    kept = f"h.{near} AS a, h.{far} AS b" if pairs else f"0::BIGINT AS a, h.{far} AS b"
    distinct = "" if pairs or single else "DISTINCT "
    select = f"SELECT {distinct}{kept}, {int(way.role)} AS role FROM ({relation}) h"
    presorted = bool(stored) and not distinct and not refreshed_row_files(way.hop)
    if start.rids is not None and start.few:
        marks = ", ".join("?" for _ in start.rids)
        # Not presorted: DuckDB joins with the list and returns row groups in any order.
        return WalkSql(f"{select} WHERE h.{near} IN ({marks})", list(start.rids), False)
    if start.rids is None and start.table is None:
        return WalkSql(select, [], presorted)
    rows, parameters = start.relation("")
    return WalkSql(f"{select} SEMI JOIN ({rows}) s ON s.b = h.{near}", parameters, False)


def way_pairs(way: Way, ids: str, direction: Direction, files: HomeFiles) -> str:
    """Pairs (a, b, role) of one way without intervals, where a is in column b of the relation `ids`."""
    return _part(way, f"(SELECT b AS a, b, 0 AS role FROM {ids})", direction, files, None, pairs=True)


def _part(
    way: Way, before: str, direction: Direction, files: HomeFiles, few: tuple[int, ...] | None, *, pairs: bool
) -> str:
    """The pairs that one way adds to the preceding relation of pairs."""
    role = f"greatest(r.role, {int(way.role)}) AS role"
    if way.hop is None:
        return _shared_part(way, before, role)
    if way.hop.form is HopForm.INTERVAL:
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
    """The same rows under the rids of another place."""
    rid, condition = translated_rid("r.b", way.shared)
    return f"SELECT r.a, {rid} AS b, {role} FROM {before} r{condition}"


def translated_rid(rid: str, shared: SharedRows | None) -> tuple[str, str]:
    """SQL of a row's rid in another place, and a FROM suffix that keeps only shared rows."""
    if shared is None or shared.all:
        return rid, ""
    runs = shared.runs
    if len(runs.first) == 1:
        first, end, shift = int(runs.first[0]), int(runs.end[0]), int(runs.shift[0])
        return f"({rid} + {shift})", f" WHERE {rid} >= {first} AND {rid} < {end}"
    # As texts: DuckDB parses one text much faster than as many literals.
    lists = (f"unnest('[{','.join(map(str, ids.tolist()))}]'::BIGINT[])" for ids in (runs.first, runs.end, runs.shift))
    named = ", ".join(f"{ids} AS {name}" for ids, name in zip(lists, ("first", "past", "shift"), strict=True))
    return f"({rid} + s.shift)", f" JOIN (SELECT {named}) s ON {rid} >= s.first AND {rid} < s.past"


def _pairless_part(way: Way, hop: HopRecord, before: str, role: str, direction: Direction, files: HomeFiles) -> str:
    """The pairs of a form that does not store pairs."""
    match hop.form:
        case HopForm.FORMULA:
            return formula_part(hop, before, role, direction)
        case HopForm.EMPTY:
            return f"SELECT r.a, r.b, {role} FROM {before} r WHERE false"
        case HopForm.CONSTANT:
            many = direction == "forward"
        case HopForm.EVERYTHING:
            many = direction == "backward"
        case HopForm.PAIRS | HopForm.COLUMN | HopForm.KEYED | HopForm.INTERVAL:
            raise AssertionError(f"a hop of form '{hop.form}' has pairs or intervals of its own")
        case HopForm.LAZY | HopForm.PRUNED | HopForm.OFF:
            raise AssertionError(f"a hop of form '{hop.form}' cannot be read: its pairs are not kept")
        case _:
            assert_never(hop.form)
    if many:  # the single id of a side stands for all rows of the dataset at the other end
        return f"SELECT r.a, e.b, {role} FROM {before} r CROSS JOIN ({files.rids(way.end)}) e"
    return f"SELECT r.a, 0::BIGINT AS b, {role} FROM {before} r"


def _merge_parts(parts: Sequence[str]) -> str:
    return f"SELECT a, b, min(role) AS role FROM ({' UNION ALL '.join(parts)}) GROUP BY a, b"
