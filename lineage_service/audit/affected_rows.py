"""Follows rows forward over every held run, from dataset to dataset, and counts the other persons behind a row.

All rows of a place are followed together, each with a role: own, peer or absence. The weakest link of a path decides
its role; over several paths a row keeps the strongest. Whatever cannot be followed is recorded with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import DatasetRecord

from lineage_service.audit.person_search import declared_of
from lineage_service.capture.handles import Role
from lineage_service.errors import DamagedFile, LineageError
from lineage_service.query.lineage_graph import Place, Way, is_pruned
from lineage_service.query.lineage_walk import walk
from lineage_service.query.moving_rows import MovingRows, align_moves
from lineage_service.query.presence import NO_IDS, Events, PathCounts, expand_ranges
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import FEW, Start, has_intervals, own_ways, translated_rid
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.home_key import HomeKey
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID
from lineage_service.subjects.hashing import canonical_text, keyed_hash
from lineage_service.subjects.subject_index import DeclaredSubject, layers_of, owners_query


@dataclass(frozen=True)
class RowsWithRoles:
    """Rows of a place by rid, with their roles. Each row occurs once."""

    rids: Ids
    roles: Ids

    @classmethod
    def of(cls, rids: Ids, role: Role) -> RowsWithRoles:
        return cls(rids, np.full(len(rids), int(role), np.int64))

    def of_role(self, role: Role) -> Ids:
        found: Ids = self.rids[self.roles == int(role)]
        return found

    def merge(self, other: RowsWithRoles) -> RowsWithRoles:
        """Both sets. A row in both keeps the stronger role."""
        rids, roles = np.concatenate([self.rids, other.rids]), np.concatenate([self.roles, other.roles])
        order = np.lexsort((roles, rids))
        rids, roles = rids[order], roles[order]
        first = np.concatenate([[True], rids[1:] != rids[:-1]]) if len(rids) else np.array([], bool)
        return RowsWithRoles(rids[first], roles[first])


@dataclass
class ForwardReach:
    """Follows rows forward.

    rows: the rows reached, including the starts
    before: the place from which a place was first reached
    blind: what could not be followed, as run, dataset and reason
    """

    ask: Questions
    rows: dict[Place, RowsWithRoles] = field(default_factory=dict)
    before: dict[Place, Place] = field(default_factory=dict)
    blind: dict[tuple[str, str, str], None] = field(default_factory=dict)
    _ways: dict[Place, list[Way]] = field(default_factory=dict)
    _closed: dict[Place, list[str]] = field(default_factory=dict)

    def follow(self, starts: Mapping[Place, Ids]) -> None:
        """Follows these rows to everything derived from them."""
        for place, rids in starts.items():
            self._add(place, RowsWithRoles.of(rids, Role.OWN), None)
        for place in self._order(list(starts)):
            here = self.rows.get(place)
            if here is None or not len(here.rids):
                continue
            for reason in self._closed.get(place, ()):
                self._note(place, reason)
            for way in self._ways[place]:
                self._follow_way(way, here)

    def way_to(self, place: Place) -> list[Place]:
        """The places from a start to this one."""
        found = [place]
        while found[-1] in self.before:
            found.append(self.before[found[-1]])
        return found[::-1]

    def _follow_way(self, way: Way, here: RowsWithRoles) -> None:
        for role in Role:
            rids = here.of_role(role)
            if not len(rids):
                continue
            try:
                found = rids if way.hop is None else self._rows_ahead(way, rids)
            except DamagedFile:
                raise
            except LineageError as error:
                self._note(way.start, error.problems[0].message)
                return
            self._add(way.end, RowsWithRoles.of(found, max(role, way.role)), way.start)

    def _rows_ahead(self, way: Way, rids: Ids) -> Ids:
        engine = self.ask.engine
        start = start_at(self.ask, rids)
        try:
            sql = self.ask.walk_sql([way], start, way.start, way.end, "forward", pairs=False)
            found = engine.id_array(f"SELECT DISTINCT b FROM ({sql.text}) ORDER BY b", sql.parameters)
        finally:
            if start.table is not None:
                engine.drop(start.table)
        ids: Ids = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return ids

    def _add(self, place: Place, rows: RowsWithRoles, before: Place | None) -> None:
        if not len(rows.rids):
            return
        if place in self.rows:
            self.rows[place] = self.rows[place].merge(rows)
            return
        self.rows[place] = rows
        if before is not None:
            self.before[place] = before

    def _note(self, place: Place, reason: str) -> None:
        names = [each.full_name for each in self.ask.graph.datasets_at(place)]
        self.blind[place.run_id, names[0] if names else "", reason] = None

    def _order(self, starts: Sequence[Place]) -> list[Place]:
        """Every place ahead, in topological order."""
        reverse: list[Place] = []
        seen: set[Place] = set()
        for start in starts:
            if start in seen:
                continue
            seen.add(start)
            stack = [(start, iter(self._ways_from(start)))]
            while stack:
                place, pending = stack[-1]
                for way in pending:
                    if way.end not in seen:
                        seen.add(way.end)
                        stack.append((way.end, iter(self._ways_from(way.end))))
                        break
                else:
                    reverse.append(place)
                    stack.pop()
        return reverse[::-1]

    def _ways_from(self, place: Place) -> list[Way]:
        """The forward ways that can be followed. Reasons for the others are kept until rows arrive here."""
        graph, closed = self.ask.graph, self._closed.setdefault(place, [])
        try:
            hops = graph.ways_from(place, "forward", links=False, pruned=True)
        except DamagedFile:
            raise
        except LineageError as error:
            closed.append(error.problems[0].message)
            hops = []
        ways = []
        for way in hops:
            assert way.hop is not None
            if way.hop.form is HopForm.OFF:
                continue  # reported below
            if is_pruned(way.hop, "forward"):
                closed.append("lineage was pruned: the workload of the run declares other questions")
            elif way.hop.form is HopForm.LAZY:
                closed.append("lineage is captured on demand only, by Spark (capture lazy)")
            else:
                ways.append(way)
        run = self.ask.reader.run(place.run_id)
        if place.space.is_source and run is not None and run.capture == "off":
            closed.append("the run was made with capture off: it has no lineage")
        # All readers of a source's version are starts, or are reached from the output that it reads.
        links = [] if place.space.is_source else graph.links(place, "forward")
        self._ways[place] = ways + links
        return self._ways[place]


def start_at(ask: Questions, rids: Ids) -> Start:
    """A walk's start at these rids. The caller must drop its table, if it has one."""
    import pyarrow as pa

    if len(rids) <= FEW:
        return Start(rids=tuple(int(rid) for rid in rids))
    return Start(table=ask.engine.keep_ids(pa.array(rids, pa.int64())))


class OtherPersonCounts(NamedTuple):
    """The number of other persons behind a row: all of them, and those that are more than peers of a window."""

    all: int
    own: int


@dataclass
class OtherPersons:
    """Counts the other persons behind rows, by keyed hashes. `asked` are the hashes (hex, by kind) of the requesting
    person."""

    ask: Questions
    key: HomeKey
    asked: Mapping[str, Iterable[str]]

    def count_by_row(self, place: Place, rids: Ids) -> dict[int, OtherPersonCounts] | str:
        """Per rid the numbers of other persons; or the reason why they are unknown."""
        try:
            return self._count_by_row(place, rids)
        except DamagedFile:
            raise
        except LineageError as error:
            return error.problems[0].message

    def _count_by_row(self, place: Place, rids: Ids) -> dict[int, OtherPersonCounts] | str:
        graph, engine = self.ask.graph, self.ask.engine
        walked = walk(graph, place, "backward", pruned=True)
        places = {place, *walked.reachable_places(absence=False)}
        # If a way ended early, persons behind it would be missed, and their data would be taken for the requester's.
        for note in self.ask.cuts.notes(walked.order):
            return note
        for made in (each for each in places if each.space.is_step):
            run = self.ask.reader.run(made.run_id)
            if run is not None and run.capture == "off":
                return f"run '{run.id}' was made with capture off: the persons behind its rows are unknown"
        start = start_at(self.ask, rids)
        tables: list[str] = [] if start.table is None else [start.table]
        parts: list[str] = []
        moving: list[_WindowPersons] = []
        try:
            for target in sorted(each for each in places if each.space.is_source):
                dataset = graph.datasets_at(target)[0]
                persons = [*self._owners(dataset), *self._owners_elsewhere(dataset)]
                if not persons:
                    continue
                ways = self.ask.unkept.ways_toward(walked, target, "backward", absence=False)
                if any(way.hop and (way.hop.form is HopForm.LAZY or is_pruned(way.hop, "backward")) for way in ways):
                    return f"lineage back to '{dataset.full_name}' was not kept"
                if target == place:
                    relation, parameters = start.relation("")
                    query = f"SELECT b AS a, b, 0 AS role FROM ({relation})"
                elif has_intervals(ways):
                    # Rows read by windows are counted incrementally: as pairs there may be rows squared.
                    rows = MovingRows(self.ask, ways, start, place, target)
                    moving.append(_WindowPersons(rows, self._materialize_owners(persons, tables)))
                    sql = self.ask.walk_sql(own_ways(ways), start, place, target, "backward")
                    query, parameters = sql.text, sql.parameters
                else:
                    sql = self.ask.walk_sql(ways, start, place, target, "backward")
                    query, parameters = sql.text, sql.parameters
                pairs = engine.keep(query, parameters)
                tables.append(pairs)
                for kind, (relation, bound) in persons:
                    joined = (
                        f"SELECT p.a, {literal(kind)} AS kind, o.hash, p.role FROM {pairs} p "
                        f"JOIN ({relation}) o ON o.rid = p.b"
                    )
                    tables.append(engine.keep(joined, bound))
                    parts.append(f"SELECT * FROM {tables[-1]}")
            if not parts:
                return "no source behind it declares a subject"
            others = f"FROM ({' UNION ALL '.join(parts)}) WHERE NOT {self._requester_condition()}"
            if moving:
                return self._count_over_windows(rids, others, moving, tables)
            query = (
                f"SELECT a, count(DISTINCT (kind, hash)), count(DISTINCT (kind, hash)) FILTER (role = 0) "
                f"{others} GROUP BY a"
            )
            counted = {int(a): OtherPersonCounts(int(all_), int(own)) for a, all_, own in engine.rows(query)}
        finally:
            for table in tables:
                engine.drop(table)
        return {int(rid): counted.get(int(rid), OtherPersonCounts(0, 0)) for rid in rids}

    def _materialize_owners(self, persons: Iterable[tuple[str, tuple[str, list[object]]]], tables: list[str]) -> str:
        """A query (kind, hash, rid) of all persons except the requester, with their rows."""
        kept = []
        for kind, (relation, bound) in persons:
            query = f"SELECT {literal(kind)} AS kind, hash, rid FROM ({relation})"
            tables.append(
                self.ask.engine.keep(f"SELECT * FROM ({query}) WHERE NOT {self._requester_condition()}", bound)
            )
            kept.append(f"SELECT * FROM {tables[-1]}")
        return " UNION ".join(kept)

    def _count_over_windows(
        self, rids: Ids, others: str, moving: Sequence[_WindowPersons], tables: list[str]
    ) -> dict[int, OtherPersonCounts]:
        """Counts other persons if some of them are behind rows that a window read. `others` are those behind a row
        without a window: (a, kind, hash, role)."""
        engine = self.ask.engine
        everybody = " UNION ".join(
            [f"SELECT kind, hash {others}", *(f"SELECT kind, hash FROM ({each.owners})" for each in moving)]
        )
        tables.append(engine.keep(f"SELECT kind, hash, row_number() OVER () - 1 AS person FROM ({everybody})"))
        numbered = tables[-1]
        rows = rids[np.argsort(moving[0].rows.ranks(rids), kind="stable")]
        steps = np.argsort(rows)  # by rid
        beside = f"(SELECT a, kind, hash, min(role) AS role {others} GROUP BY a, kind, hash)"
        near, person, role = engine.arrays(
            f"SELECT b.a, n.person, b.role FROM {beside} b JOIN {numbered} n ON n.kind = b.kind AND n.hash = b.hash", 3
        )
        near = steps[np.searchsorted(rows, near, sorter=steps)]
        own = np.bincount(near[role == 0], minlength=len(rows))
        # Persons behind a row without a window are added at its step and removed at the next.
        passing = Events(
            np.append(near, near + 1), np.append(person, person), np.repeat(np.array([1, -1]), len(near))
        ).in_order()
        for each in moving:
            each.number(engine, numbered)
        counts = PathCounts(engine.scalar(f"SELECT count(*) FROM {numbered}"))
        total, behind = np.zeros(len(rows), np.int64), 0
        for moves in align_moves([each.rows.moves(rows) for each in moving]):
            first, past = moves[0].first, moves[0].past
            found = [each.of(one.events) for each, one in zip(moving, moves, strict=True)]
            changes = counts.add(Events.concatenate([*found, passing.between(first, past)]))
            change = np.bincount(changes.steps - first, changes.weights, past - first).astype(np.int64)
            total[first:past] = behind + np.cumsum(change)
            behind = int(total[past - 1])
        return {
            rid: OtherPersonCounts(all_, own_)
            for rid, all_, own_ in zip(rows.tolist(), total.tolist(), own.tolist(), strict=True)
        }

    def _requester_condition(self) -> str:
        alike = [
            f"(kind = {literal(kind)} AND hash = unhex('{value}'))"
            for kind, values in self.asked.items()
            for value in values
        ]
        return f"({' OR '.join(alike) or 'false'})"

    def _owners(self, dataset: DatasetRecord) -> list[tuple[str, tuple[str, list[object]]]]:
        """Per kind of person a query (hash, rid) that assigns rows of a source to persons."""
        noted = self.ask.reader.subjects(dataset.version_id)
        known = {(each.kind, each.column) for each in noted if each.key_id == self.key.id}
        found: list[tuple[str, tuple[str, list[object]]]] = [
            (each.kind, (owners_query(layers_of(each), self.ask.home.absolute), []))
            for each in noted
            if each.key_id == self.key.id
        ]
        for reader in (dataset, *self.ask.reader.readers_of([dataset.version_id])):
            for declared in declared_of(reader):
                if (declared.kind, declared.column) not in known:
                    known.add((declared.kind, declared.column))
                    found.append((declared.kind, self._scan_owners(reader, declared)))
        return found

    def _owners_elsewhere(self, dataset: DatasetRecord) -> list[tuple[str, tuple[str, list[object]]]]:
        """The same assignment, from other sources that read the same files."""
        found = []
        for other, shared in self.ask.graph.sources_sharing(dataset):
            rid, condition = translated_rid("o.rid", shared)
            for kind, (relation, bound) in self._owners(other):
                found.append((kind, (f"SELECT o.hash, {rid} AS rid FROM ({relation}) o{condition}", bound)))
        return found

    def _scan_owners(self, dataset: DatasetRecord, declared: DeclaredSubject) -> tuple[str, list[object]]:
        """The same assignment for a source read before persons were recorded: computed from its rows, if they are
        unchanged."""
        scan = self.ask.scan(dataset)
        if not self.ask.files.is_unchanged(Place(dataset.run_id, dataset.space)):
            raise LineageError(f"the persons in '{dataset.full_name}' were not recorded, and its files have changed")
        own = next((each for each in scan.version.columns if each.name.lower() == declared.column.lower()), None)
        if own is None:
            raise LineageError(f"'{dataset.full_name}' has no column '{declared.column}'")
        text = canonical_text(column(own.name), own.type)
        query = f"SELECT {keyed_hash(declared.kind, text)} AS hash, {RID} AS rid FROM ({scan.select([own.name])})"
        return f"{query} WHERE {text} IS NOT NULL", list(self.key.pads)


@dataclass
class _WindowPersons:
    """The persons behind one row after another, by number. `owners` is a query (kind, hash, rid)."""

    rows: MovingRows
    owners: str
    _first: Ids = field(default_factory=lambda: NO_IDS)  # offset of each row's persons,
    _lengths: Ids = field(default_factory=lambda: NO_IDS)  # their number,
    _persons: Ids = field(default_factory=lambda: NO_IDS)  # index into this list

    def number(self, engine: QueryEngine, numbered: str) -> None:
        """Finds the persons of each row, by their numbers in a table (kind, hash, person)."""
        rids, self._persons = engine.arrays(
            f"SELECT o.rid, n.person FROM ({self.owners}) o JOIN {numbered} n ON n.kind = o.kind AND n.hash = o.hash "
            "ORDER BY o.rid",
            2,
        )
        low, past = (np.searchsorted(rids, self.rows.rids, side=side) for side in ("left", "right"))
        self._first, self._lengths = low, past - low

    def of(self, rows: Events) -> Events:
        """The persons of rows that are added and removed, once per row."""
        lengths = self._lengths[rows.numbers]
        persons = self._persons[expand_ranges(self._first[rows.numbers], lengths)]
        return Events(np.repeat(rows.steps, lengths), persons, np.repeat(rows.weights, lengths))
