"""Traces one record: from dataset to dataset, back to the sources and forward to everything derived from it.

Each dataset in the trace is one set of rows: those reached from the record along this path. The counts are therefore
exact however few rows are shown, and the size of the tree depends on the graph of datasets, not on the data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role
from lineage_service.errors import DamagedFile, NotFound, QuestionError, SourceError, StoreError
from lineage_service.query.answer_shape import AnswerShape
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.query.lineage_walk import Walk, walk
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.query.staleness_notes import older_window_notes, stale_reader_notes
from lineage_service.query.trace.trace_result import Trace, TracedRow, TracedSet, TracedStep
from lineage_service.query.walk_sql import Start, translated_rid
from lineage_service.spec.step_description import describe_step, inputs_of
from lineage_service.store.row_places import RowPlace, row_places
from lineage_service.store.version_scan import VersionScan

DIRECTIONS: tuple[Direction, Direction] = ("backward", "forward")
MOST_SETS = 400  # maximum number of nodes; a tree with more is unreadable, and what is left out is noted

HIDDEN = "a file whose path would tell a masked value"


def trace(questions: Questions, dataset: str, selection: Selection, *, depth: int | None, rows: int) -> Trace:
    """The trace of the one record that the selection matches. Values are masked unless the selection reveals them."""
    if depth is not None and depth < 0:
        raise QuestionError("a depth cannot be negative")
    found = questions.find(dataset)
    tracer = Tracer(questions, found.run_id, rows, selection.reveal)
    return tracer.trace(found, _only_rid(questions, found, selection), depth)


def _only_rid(questions: Questions, dataset: DatasetRecord, selection: Selection) -> int:
    if not selection.is_specified or selection.all:
        raise QuestionError("say which record to trace: rid, key or where")
    start = questions.start(dataset, selection)
    rids = list(start.rids or ())
    if start.table is not None:
        rids = questions.engine.ids(f"SELECT b FROM {start.table} ORDER BY b LIMIT 1000")
        questions.engine.drop(start.table)
    if not rids:
        raise NotFound(f"no row of '{dataset.full_name}' matches; a trace follows one record")
    if len(rids) > 1:
        shown = ", ".join(map(str, rids[:5]))
        raise QuestionError(
            f"{'1,000 or more' if len(rids) == 1000 else len(rids)} rows of '{dataset.full_name}' match; "
            f"a trace follows one record",
            hint=f"choose one: --rid {shown}{' …' if len(rids) > 5 else ''}",
        )
    return rids[0]


@dataclass(frozen=True)
class _RowSet:
    """Rows of a place: a temporary table (b, role), their number, and how many of them are only window peers."""

    place: Place
    table: str
    count: int
    peers: int


@dataclass(frozen=True)
class _VisitedRows:
    """Rows that are already in the tree, and the depth to which they were followed; None: completely."""

    reached: _RowSet
    depth: int | None


@dataclass
class Tracer:
    """Builds one trace. Keeps its tables until the end, to recognise rows that were visited before."""

    questions: Questions
    run_id: str
    rows: int
    reveal: bool = False
    _tables: list[str] = field(default_factory=list)
    _met: dict[tuple[Direction, Place], list[_VisitedRows]] = field(default_factory=dict)
    _ahead: set[Place] = field(default_factory=set)
    _same: list[Way] = field(default_factory=list)  # ways from the record to other sources that read it
    _dropped: set[Place] = field(default_factory=set)
    _steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    _sets: int = 0

    def trace(self, dataset: DatasetRecord, rid: int, depth: int | None) -> Trace:
        try:
            start = Place(dataset.run_id, dataset.space)
            table = self._keep(f"SELECT {int(rid)}::BIGINT AS b, 0 AS role")
            reached = _RowSet(start, table, 1, 0)
            root = self._describe_rows(reached, dataset, None)
            if not root.rows:  # the record cannot be read, but its lineage is followed
                root = replace(root, rows=(self._rows_with_origin(dataset, [rid], {rid: {}})[0],))
            behind = self._behind(reached, dataset, depth)
            self._ahead = self._places_to_follow(start)
            ahead = self._neighbours(reached, "forward", depth)
            return Trace(root, self._committed_at(dataset.run_id), behind, ahead, self._notes(dataset))
        finally:
            for table in self._tables:
                self.questions.engine.drop(table)

    def _behind(self, reached: _RowSet, dataset: DatasetRecord, depth: int | None) -> tuple[TracedSet, ...]:
        """What is behind the record. For a source that another workflow made, the same row in that workflow."""
        maker = self._maker(reached.place)
        if maker is None or depth == 0:
            return self._neighbours(reached, "backward", depth)
        there = replace(reached, place=maker)
        made = self._describe_rows(there, self._dataset_at(maker), dataset.name)
        return (self._with_next(made, there, "backward", depth),)

    def _is_relevant(self, made: TracedSet, place: Place) -> bool:
        """Whether a set is shown. Sets of a workflow's earlier run are shown only if they lead to current data."""
        if not made.earlier or made.next or made.cut or (made.seen and place not in self._dropped):
            return True
        self._dropped.add(place)
        return False

    def _places_to_follow(self, start: Place) -> set[Place]:
        """Places ahead in this run or in a workflow's latest run, and the places on the way to them."""
        walked = self.questions.targets.walk_all(start, "forward")
        self._same = [way for way in walked.ways if way.start == start and way.shared is not None]
        wanted = {place for place in walked.order if place.run_id == self.run_id or self._is_latest(place)}
        for place in reversed(walked.order):
            if any(way.end in wanted for way in walked.ways if way.start == place):
                wanted.add(place)
        return wanted

    # --- neighbours of a set of rows ----------------------------------------------------------------------------

    def _neighbours(self, here: _RowSet, direction: Direction, depth: int | None) -> tuple[TracedSet, ...]:
        """The datasets adjacent to these rows, each with its own neighbours."""
        if depth == 0:
            return ()
        found: list[TracedSet] = []
        for way, link in self._same_rows(here.place, direction):
            begin = self._rows_at_end(here, way)
            if begin is None:
                continue
            place = begin.place
            walked = walk(self.questions.graph, place, direction, links=False, nearest=True)
            ends = [end for end in walked.order if end != place and end.space.is_dataset]
            ends = [end for end in ends if direction == "backward" or end in self._ahead]
            for end in ends:
                made = self._next(begin, walked, end, direction, depth, link)
                if made is not None and self._is_relevant(made, end):
                    found.append(made)
        return tuple(found)

    def _same_rows(self, place: Place, direction: Direction) -> Iterator[tuple[Way, str | None]]:
        """Ways to the places that hold these rows: this place, and those of runs that made or read them."""
        yield Way(place, place, None), None
        if direction == "backward":
            return  # the maker replaces the reader
        for way in [*self.questions.graph.links(place, direction), *self._same]:
            if way.start == place and way.end in self._ahead:
                yield way, self._dataset_at(way.end).name

    def _rows_at_end(self, here: _RowSet, way: Way) -> _RowSet | None:
        """These rows at the end of a way; None if none of them exist there."""
        if way.shared is None or way.shared.all:
            return replace(here, place=way.end)
        rid, condition = translated_rid("r.b", way.shared)
        table = self._keep(f"SELECT {rid} AS b, r.role FROM {here.table} r{condition}")
        count = self.questions.engine.scalar(f"SELECT count(*) FROM {table}")
        peers = self.questions.engine.scalar(f"SELECT count(*) FROM {table} WHERE role = {int(Role.PEER)}")
        return _RowSet(way.end, table, count, peers) if count else None

    def _next(
        self, here: _RowSet, walked: Walk, end: Place, direction: Direction, depth: int | None, read_as: str | None
    ) -> TracedSet | None:
        contributing = walked.ways_toward(end, absence=False)
        if not contributing:
            return self._absent(end)
        questions = self.questions
        start = Start(table=here.table, roles=True)
        sql = questions.walk_sql(contributing, start, here.place, end, direction, pairs=False)
        table = self._keep(f"SELECT b, role FROM ({sql.text})", sql.parameters)
        count = questions.engine.scalar(f"SELECT count(*) FROM {table}")
        if count == 0 and direction == "forward":
            return None
        peers = questions.engine.scalar(f"SELECT count(*) FROM {table} WHERE role = {int(Role.PEER)}")
        maker = self._maker(end) if direction == "backward" else None
        reached = _RowSet(maker or end, table, count, peers)
        shown_as = self._dataset_at(end).name if maker else read_as
        made = self._describe_rows(reached, self._dataset_at(reached.place), shown_as)
        if direction == "forward":
            made = replace(made, earlier=end.run_id != self.run_id and not self._is_latest(end))
        return made if count == 0 else self._with_next(made, reached, direction, depth)

    def _with_next(self, made: TracedSet, reached: _RowSet, direction: Direction, depth: int | None) -> TracedSet:
        """The set with its neighbours, unless the same rows are in the tree already or the depth limit is reached."""
        left = None if depth is None else depth - 1
        if self._is_visited(reached, direction, left):
            return replace(made, seen=self._has_neighbours(reached, direction))
        self._sets += 1
        if left == 0 or self._sets > MOST_SETS:
            return replace(made, cut=self._has_neighbours(reached, direction))
        self._met.setdefault((direction, reached.place), []).append(_VisitedRows(reached, left))
        return replace(made, next=self._neighbours(reached, direction, left))

    def _absent(self, end: Place) -> TracedSet:
        record = self._dataset_at(end)
        version = self.questions.scan(record).version
        return TracedSet(record.full_name, record.run_id, record.role, "absence", version.rows)

    def _is_visited(self, reached: _RowSet, direction: Direction, left: int | None) -> bool:
        """Whether exactly these rows are in the tree already and were followed at least as deep."""
        for met in self._met.get((direction, reached.place), ()):
            other = met.reached
            deep_enough = met.depth is None or (left is not None and met.depth >= left)
            if deep_enough and (other.count, other.peers) == (reached.count, reached.peers):
                both = f"SELECT count(*) FROM {reached.table} SEMI JOIN {other.table} USING (b, role)"
                if self.questions.engine.scalar(both) == reached.count:
                    return True
        return False

    def _has_neighbours(self, reached: _RowSet, direction: Direction) -> bool:
        """Whether the dataset of these rows has any neighbour."""
        return any(
            self.questions.graph.ways_from(way.end, direction, links=False)
            for way, _ in self._same_rows(reached.place, direction)
        )

    def _maker(self, place: Place) -> Place | None:
        """The place where another workflow made the output that is read here as a source."""
        ways = self.questions.graph.links(place, "backward")
        return ways[0].end if ways else None

    # --- description of a set of rows ---------------------------------------------------------------------------

    def _describe_rows(self, reached: _RowSet, record: DatasetRecord, read_as: str | None) -> TracedSet:
        rows, unreadable = self._read_shown_rows(reached, record)
        return TracedSet(
            record.full_name, record.run_id, record.role, "contributes", reached.count, reached.peers, rows, read_as,
            unreadable, self._made_by(record),
        )  # fmt: skip

    def _read_shown_rows(self, reached: _RowSet, record: DatasetRecord) -> tuple[tuple[TracedRow, ...], str | None]:
        engine = self.questions.engine
        first = engine.ids(f"SELECT b FROM {reached.table} ORDER BY role, b LIMIT {max(1, self.rows)}")
        if self.rows == 0 and reached.count != 1:
            first = []
        if not first:
            return (), None
        scan = self.questions.scan(record)
        try:
            shape = AnswerShape(reveal=self.reveal, unchanged=True)
            part = self.questions.rows_of(record, scan, Start(rids=tuple(first)), shape)
            values = {row.pop("_rid"): row for row in part.arrow().to_pylist()}
            self.questions.masks.note_hidden(part.masked)
        except DamagedFile:
            raise
        except (SourceError, StoreError) as error:
            return (), error.problems[0].message
        peers = set(engine.ids(f"SELECT b FROM {reached.table} WHERE role = {int(Role.PEER)}")) if reached.peers else ()
        readable = [rid for rid in first if rid in values]
        unreadable_reason = part.notes[0].partition(": ")[2] if part.notes else None
        return self._rows_with_origin(record, readable, values, peers, part.masked), unreadable_reason

    def _rows_with_origin(
        self,
        record: DatasetRecord,
        rids: Sequence[int],
        values: Mapping[int, dict[str, Any]],
        peers: Collection[int] = (),
        masked: tuple[str, ...] = (),
    ) -> tuple[TracedRow, ...]:
        """Rows with their known origin. This works for unreadable rows too."""
        scan = self.questions.scan(record)
        where: Sequence[RowPlace | str | None] = [None] * len(rids)
        if record.role == "source":
            where = [HIDDEN] * len(rids) if self._path_reveals_mask(record, scan) else row_places(scan, rids)
        rows = []
        for rid, place in zip(rids, where, strict=True):
            file, origin = (place, None) if isinstance(place, RowPlace) else (None, place)
            rows.append(TracedRow(rid, values[rid], file, rid in peers, masked, origin))
        return tuple(rows)

    def _path_reveals_mask(self, record: DatasetRecord, scan: VersionScan) -> bool:
        """Whether the path of a file discloses a masked value, because a folder is named after it."""
        masked = self.questions.masks.over(record, reveal=self.reveal)
        return any(each.partition is not None and each.name.lower() in masked for each in scan.version.columns)

    def _made_by(self, record: DatasetRecord) -> tuple[TracedStep, ...]:
        """The steps from the dataset's own step back to the nearest datasets, in reading order."""
        if record.role == "source":
            return ()
        if record.role == "failing":
            return (TracedStep(record.name, "the rows that fail a check"),)
        steps = self._steps_of(record.run_id)
        if not steps and record.role == "output":
            return (TracedStep(record.name, "a saved query"),)
        bounds = {each.space.name for each in self.questions.graph.datasets(record.run_id) if each.role != "source"}
        own = record.space.name
        found: dict[str, TracedStep] = {}
        pending = [own]
        while pending:
            name = pending.pop(0)
            if name in found or name not in steps or (name != own and name in bounds):
                continue
            found[name] = TracedStep(name, describe_step(steps[name]))
            pending += inputs_of(steps[name])
        return tuple(found.values())

    def _steps_of(self, run_id: str) -> dict[str, Any]:
        if run_id not in self._steps:
            content = self.questions.reader.content(run_id)
            self._steps[run_id] = {step["name"]: step for step in json.loads(content or "{}").get("steps", ())}
        return self._steps[run_id]

    def _notes(self, dataset: DatasetRecord) -> tuple[str, ...]:
        run = self.questions.reader.run(dataset.run_id)
        if run is not None and run.capture == "off":
            return (f"run '{run.id}' was made with capture off and has no lineage",)
        begin = Place(dataset.run_id, dataset.space)
        behind, ahead = (self.questions.targets.walk_all(begin, way) for way in DIRECTIONS)
        older = older_window_notes([*behind.ways, *ahead.ways])
        unkept = [
            note
            for walked, way in zip((behind, ahead), DIRECTIONS, strict=True)
            for note in self.questions.omission_notes(dataset, walked, way)
        ]
        return (*dict.fromkeys(unkept), *older, *stale_reader_notes(self.questions.graph, ahead, dataset))

    def _committed_at(self, run_id: str) -> str:
        run = self.questions.reader.run(run_id)
        return run.committed_at if run else ""

    def _dataset_at(self, place: Place) -> DatasetRecord:
        """The dataset record of a place. An output is preferred to a kept step."""
        return min(self.questions.graph.datasets_at(place), key=lambda each: (each.role != "output", each.name))

    def _is_latest(self, place: Place) -> bool:
        run = self.questions.reader.run(place.run_id)
        latest = self.questions.reader.latest_run(run.workflow) if run else None
        return latest is not None and latest.id == place.run_id

    def _keep(self, query: str, parameters: Sequence[object] = ()) -> str:
        table = self.questions.engine.keep(query, parameters)
        self._tables.append(table)
        return table
