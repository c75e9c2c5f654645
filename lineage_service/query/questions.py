"""Questions and their answers: rows, backward, forward. Ties names, graph, SQL and engine together; no Spark."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_catalog.reader import CatalogReader, Stamp
from lineage_catalog.records import DatasetRecord

from lineage_service.capture.workload import workload_entry
from lineage_service.errors import NotFound, QuestionError, did_you_mean, join_names
from lineage_service.query.answer import Answer, AnswerPart, Kind, records
from lineage_service.query.changed_files import changed_files, files_holding, refuse_changed
from lineage_service.query.contributors import Contributors, RankingMeasure, deciding_columns, measure_of
from lineage_service.query.guarded_session import Session
from lineage_service.query.home_files import HomeFiles, index_files
from lineage_service.query.hop_sql import key_columns, keyed_rows, stored_file
from lineage_service.query.index_lookup import Lookups
from lineage_service.query.lineage_graph import (
    UNCAPTURED,
    Direction,
    LineageGraph,
    Place,
    Walk,
    Way,
    is_missing,
    is_source,
    walk,
)
from lineage_service.query.masks import NONE, Masks
from lineage_service.query.partition_pruning import may_hold
from lineage_service.query.query_engine import QueryEngine, translate_index_errors
from lineage_service.query.row_retrieval import AnswerShape, Keyed, Top, id_part, limit_notes, rows_part
from lineage_service.query.selection import HELD, Selection, rids_where
from lineage_service.query.staleness_notes import cut_note, older_window_notes, stale_reader_notes
from lineage_service.query.walk_sql import FEW, Start, WalkSql, walk_sql
from lineage_service.query.window_counts import rows_behind_window, rows_reading_one
from lineage_service.store.dataset_names import ALL, DatasetName, find_dataset, without_readers
from lineage_service.store.duckdb_engine import column
from lineage_service.store.layout import HomeLayout
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import apply_source_renames

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.runs.committed_run import CommittedRun


MOST_TAKEN = 1000  # predicates whose rows are remembered
Lazily = Callable[[Sequence[Way], Start, Place, Direction], Sequence[Way]]
Members = Callable[[Place, Sequence[int]], str]


def _no_lazy(ways: Sequence[Way], start: Start, begin: Place, direction: Direction) -> Sequence[Way]:
    _ = start, begin, direction
    raise QuestionError(f"the lineage of run '{ways[0].start.run_id}' is only captured when asked for, by Spark")


def _no_members(place: Place, ids: Sequence[int]) -> str:
    _ = ids
    raise QuestionError(f"the lineage of run '{place.run_id}' is only captured when asked for, by Spark")


class Questions:
    """Asks over one home. What it has read of committed runs it keeps."""

    def __init__(
        self,
        home: HomeLayout,
        reader: CatalogReader,
        engine: QueryEngine,
        settle: Callable[[str], None] | None = None,
        lazily: Lazily | None = None,
        members: Members | None = None,
    ) -> None:
        self.home, self.reader, self.engine = home, reader, engine
        self.graph = LineageGraph(reader, settle, home.absolute)
        self.files = HomeFiles(home.absolute, self.scan_at)
        self.lookups = Lookups()
        self.session = Session(engine.spill)
        self.masks = Masks(reader, self.scan)
        self.lazy: Lazily = lazily or _no_lazy
        self.members: Members = members or _no_members
        self.reread: dict[str, Any] = {}  # plans of runs that were lowered again, by who captures when asked
        self.asked: list[Path] = []  # pairs that were captured when asked for; they go with the questions
        self._runs: dict[str, CommittedRun] = {}
        self._scans: dict[str, VersionScan] = {}
        self._found: dict[str, DatasetRecord] = {}
        self._stamp: Stamp | None = None
        self._walked: tuple[Walk, Walk] | None = None  # a walk, and the same over what was not kept
        self._taken: dict[tuple[object, ...], pa.Array] = {}

    def committed_run(self, run_id: str) -> CommittedRun:
        """A run with its workflow, plan and versions."""
        from lineage_service.runs.committed_run import load_run

        if run_id not in self._runs:
            self._runs[run_id] = load_run(self.home, self.reader, run_id)
        return self._runs[run_id]

    def close(self) -> None:
        self.session.close()
        self.engine.drop_held()
        for folder in self.asked:
            shutil.rmtree(folder, ignore_errors=True)

    # --- rows -------------------------------------------------------------------------------------------------

    def rows(self, dataset: str, selection: Selection, shape: AnswerShape) -> Answer:
        found = self.find(dataset)
        start = self.start(found, selection)
        scan = self.scan(found)
        part = self.rows_of(found, scan, start, shape)
        self.masks.note_hidden(part.masked)
        return Answer([part], "rows", list(part.notes))

    # --- lineage ----------------------------------------------------------------------------------------------

    def lineage(
        self, dataset: str, direction: Direction, to: Sequence[str] | None, selection: Selection, shape: AnswerShape
    ) -> Answer:
        if not selection.is_specified:
            raise QuestionError("say which rows to start from: rid, key, where or all")
        found = self.find(dataset)
        walked, targets = self.walk_to(found, direction, to)
        start = self.start(found, selection)
        if to is None:
            answer = self._counts(walked, start, targets, direction, shape)
        else:
            several = len(targets) > 1 or ALL in to or len(to) > 1
            answer = Answer([], _kind(shape))
            measures = self._measures(targets, shape)
            for target in targets:
                if shape.top is not None:
                    part = self._ranked_part(answer, found, walked, start, target, shape.top, measures[target], shape)
                else:
                    part = self._part(walked, start, target, direction, shape)
                part.absent = self._note_absence(answer, walked, target, found, direction, shape)
                part.dataset = target.full_name if several else None
                self.masks.note_hidden(part.masked)
                answer.notes += part.notes
                answer.parts.append(part)
        answer.notes += self.older_window_notes(walked, targets, direction)
        answer.notes += limit_notes(shape, counts=to is None)
        if direction == "forward" and (to is None or ALL in to):
            answer.notes += stale_reader_notes(self.graph, walked, found)
        answer.notes += self.omission_notes(found, walked, direction, targets, to)
        if (
            direction == "backward"
            and found.role == "source"
            and not targets
            and not self.retention_cut_notes(walked.order)
        ):
            answer.notes.append(f"'{found.full_name}' is a source that was read from files: nothing is behind it")
        if start.table is not None:
            weakref.finalize(answer, self.engine.drop, start.table)
        return answer

    def _part(
        self, walked: Walk, start: Start, target: DatasetRecord, direction: Direction, shape: AnswerShape
    ) -> AnswerPart:
        found = self._part_from_index(walked, start, target, direction, shape)
        if found is not None:
            return found
        if shape.count and not shape.pairs:
            total = self._total(walked, start, target, direction, shape)
            return records(["count"], [(total,)]).parts[0]
        sql = self._walk_sql(walked, start, target, direction, shape, pairs=shape.pairs)
        if shape.pairs:
            return self._pairs_part(sql, direction, shape)
        if shape.rids:
            limit = "" if shape.limit is None else f" LIMIT {shape.limit}"
            query = f"SELECT b AS {RID} FROM ({sql.text}) ORDER BY b{limit}"
            part = AnswerPart([RID], lambda: self.engine.stream(query, sql.parameters))
            if shape.limit is not None:
                total = self.engine.scalar(f"SELECT count(*) FROM ({sql.text})", sql.parameters)
                part.remaining = max(0, total - shape.limit)
            return part
        reached = self.engine.keep(f"SELECT b FROM ({sql.text})", sql.parameters)
        return self.rows_of(target, self.scan(target), Start(table=reached), shape)

    def _measures(self, targets: Sequence[DatasetRecord], shape: AnswerShape) -> dict[DatasetRecord, RankingMeasure]:
        """What the rows of each target are ranked by: it must fit all of them before any is read."""
        if shape.top is None:
            return {}
        masked = {each: self.masks.over(each, reveal=shape.reveal) for each in targets}
        return {each: measure_of(shape.top.by, each, self.scan(each), masked[each]) for each in targets}

    def _ranked_part(
        self,
        answer: Answer,
        found: DatasetRecord,
        walked: Walk,
        start: Start,
        target: DatasetRecord,
        top: Top,
        measure: RankingMeasure,
        shape: AnswerShape,
    ) -> AnswerPart:
        """The contributors that matter most, those marked that decide a min or max of the rows asked about."""
        deciding: dict[str, str] = {}
        if not shape.influence:  # what has no match decides nothing
            deciding, note = deciding_columns(self.reader.columns(found.run_id), found, target)
            answer.notes += [note] if note else []
        masked = self.masks.over(target, reveal=shape.reveal)
        # Which row has the largest value would tell of a masked one.
        beside = self.masks.over(found, reveal=shape.reveal) if deciding else NONE
        hidden = [name for name, by in deciding.items() if name.lower() in beside or by.lower() in masked]
        if hidden:
            answer.notes.append(f"which rows decide {join_names(hidden)} is not marked: it is masked")
        deciding = {name: by for name, by in deciding.items() if name not in hidden}
        sql = self._walk_sql(walked, start, target, "backward", shape, pairs=bool(deciding))
        ranked = Contributors(
            self.engine, self.session, found, self.scan(found), target, self.scan(target), measure, deciding, masked
        )
        return ranked.part(start, sql, top, shape)

    def _part_from_index(
        self, walked: Walk, start: Start, target: DatasetRecord, direction: Direction, shape: AnswerShape
    ) -> AnswerPart | None:
        """One row's answer from one index file; None where it takes more than that."""
        if start.rids is None or len(start.rids) != 1 or shape.pairs or (shape.rids and shape.limit is not None):
            return None
        ways = self.ways_toward(walked, Place(target.run_id, target.space), direction, absence=shape.influence)
        if len(ways) != 1 or ways[0].hop is None:
            return None
        path = stored_file(ways[0].hop, direction)
        if path is None:
            return None
        near, far = ("a", "b") if direction == "backward" else ("b", "a")
        with translate_index_errors(self.home.path):
            ids = self.lookups.ids(index_files(self.home.absolute(path)), near, far, start.rids[0])
        if shape.count:
            return records(["count"], [(len(ids),)]).parts[0]
        if shape.rids:
            return id_part(ids)
        keyed = self.key_scan(ways[0], start.rids) if direction == "backward" else None
        return self.rows_of(target, self.scan(target), Start(ids=ids), shape, keyed)

    def key_scan(self, way: Way, rids: Sequence[int]) -> Keyed | None:
        """How rows behind these are found by the keys that they show; None where there is no such way."""
        columns = key_columns(way)
        return None if columns is None else lambda: keyed_rows(way, self._keys(way.start, columns, rids), self.files)

    def _keys(self, place: Place, columns: Sequence[str], rids: Sequence[int]) -> list[tuple[Any, ...]]:
        """What rows of a dataset have in these columns."""
        scan = self.scan_at(place)
        names, wanted = ", ".join(map(column, columns)), ", ".join(map(str, rids))
        if scan.version.rows <= HELD:
            rows = self.engine.held_table(scan.nan_safe(scan.select()))
            return self.engine.rows(f"SELECT {names} FROM {rows} WHERE {RID} IN ({wanted})")
        positions = [position for rid in rids if (position := scan.position(rid)) is not None]
        return self.engine.rows(f"SELECT {names} FROM ({scan.select_positions(positions, columns)})")

    def _pairs_part(self, sql: WalkSql, direction: Direction, shape: AnswerShape) -> AnswerPart:
        out, rid = ("a", "b") if direction == "backward" else ("b", "a")
        role = ", CASE role WHEN 0 THEN 'own' WHEN 1 THEN 'peer' ELSE 'absence' END AS role" if shape.roles else ""
        order = "" if sql.presorted and direction == "backward" else f" ORDER BY {out}, {rid}"
        query = f"SELECT {out} AS out_rid, {rid} AS rid{role} FROM ({sql.text}){order}"
        columns = ["out_rid", "rid", *(["role"] if shape.roles else [])]
        return AnswerPart(columns, lambda: self.engine.stream(query, sql.parameters))

    def _counts(
        self, walked: Walk, start: Start, targets: list[DatasetRecord], direction: Direction, shape: AnswerShape
    ) -> Answer:
        counted = []
        for target in targets:
            counted.append((target.full_name, self._total(walked, start, target, direction, shape)))
        answer = records(["dataset", "rows"], counted)
        answer.kind = "counts"
        answer.absence = [each.full_name for each in targets if not self._contributes(walked, each, direction)]
        if answer.absence and not shape.influence:
            answer.notes.append(f"only by absence of a match: {join_names(answer.absence)}")
        return answer

    def _total(
        self, walked: Walk, start: Start, target: DatasetRecord, direction: Direction, shape: AnswerShape
    ) -> int:
        """How many rows of a dataset are reached."""
        place = Place(target.run_id, target.space)
        ways = self.ways_toward(walked, place, direction, absence=shape.influence)
        count = rows_behind_window if direction == "backward" else rows_reading_one
        counted = count(ways, start, walked.start, place, self.files)
        if counted is not None:
            return self.engine.scalar(*counted)
        sql = self._walk_sql(walked, start, target, direction, shape, pairs=False)
        return self.engine.scalar(f"SELECT count(*) FROM ({sql.text})", sql.parameters)

    def _walk_sql(
        self,
        walked: Walk,
        start: Start,
        target: DatasetRecord,
        direction: Direction,
        shape: AnswerShape,
        *,
        pairs: bool,
    ) -> WalkSql:
        place = Place(target.run_id, target.space)
        ways = self.ways_toward(walked, place, direction, absence=shape.influence)
        return self.walk_sql(ways, start, walked.start, place, direction, pairs=pairs)

    def ways_toward(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        """The ways that lead to a place, and to its rows wherever else they were read. QuestionError where some of them
        were not kept: what is left would be taken for all; of a walk that shows those, they are given too."""
        missing = [] if walked.pruned else self._unkept_ways(walked, target, direction, absence=absence)
        if missing:
            raise self._unkept_error(walked, target, direction, missing)
        return self._ways_to(walked, target, direction, absence=absence)

    def _ways_to(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        if direction == "backward":
            walked = walked.ending_at(self.graph, target)
        return walked.ways_toward(target, absence=absence)

    def _unkept_ways(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        """The ways to a place over what was not kept, with all that is before and behind; none where all was kept."""
        ways = self._ways_to(self._walk_with_pruned(walked, direction), target, direction, absence=absence)
        return ways if any(is_missing(way, direction) for way in ways) else []

    def _walk_with_pruned(self, walked: Walk, direction: Direction) -> Walk:
        """The same walk over what was not kept too."""
        if self._walked is None or self._walked[0] is not walked:
            again = walked
            if any(self.graph.missing_from(place, direction) for place in walked.order):
                again = walk(self.graph, walked.start, direction, links=walked.links, pruned=True, runs=walked.runs)
            self._walked = walked, again
        return self._walked[1]

    def _contributes(self, walked: Walk, target: DatasetRecord, direction: Direction) -> bool:
        """Whether a dataset is reached by rows, and not by absence alone."""
        return bool(self.ways_toward(walked, Place(target.run_id, target.space), direction, absence=False))

    def walk_sql(
        self,
        ways: Sequence[Way],
        start: Start,
        begin: Place,
        target: Place,
        direction: Direction,
        *,
        pairs: bool = True,
    ) -> WalkSql:
        """The SQL of a walk; what was left to be captured when asked for is captured here."""
        if any(way.hop is not None and way.hop.form == "lazy" for way in ways):
            ways = self.lazy(ways, start, begin, direction)
        return walk_sql(ways, start, begin, target, direction, self.files, pairs=pairs)

    def scan_at(self, place: Place) -> VersionScan:
        return self.scan(self.graph.datasets_at(place)[0])

    # --- finding datasets -------------------------------------------------------------------------------------

    def find(self, dataset: str) -> DatasetRecord:
        """The dataset of a name; what was found before is, as long as no run has come or gone."""
        stamp = self.reader.stamp()
        if stamp != self._stamp:
            self._stamp, self._found = stamp, {}
        if dataset not in self._found:
            self._found[dataset] = find_dataset(self.reader, dataset, str(self.home.path), self.graph.datasets)
        return self._found[dataset]

    def walk_to(
        self, start: DatasetRecord, direction: Direction, to: Sequence[str] | None
    ) -> tuple[Walk, list[DatasetRecord]]:
        """The way to the targets: inside the start's own run where they are there and no other run adds ways, else over
        all runs."""
        begin = Place(start.run_id, start.space)
        if to is not None and ALL not in to:
            near = walk(self.graph, begin, direction, links=False)
            found = [self._in_own_run(name, start, near) for name in dict.fromkeys(to)]
            inside = [each for each in found if each is not None]
            if len(inside) == len(found) and self.graph.is_self_contained(start.run_id):
                return near, inside
        walked = self.walk_all(begin, direction, to)
        return walked, self._targets(start, walked, direction, to)

    def walk_all(
        self, begin: Place, direction: Direction, to: Sequence[str] | None = None, *, pruned: bool = False
    ) -> Walk:
        """Everything that can be reached from a place over all runs. Ahead: over the runs behind those that may be
        asked for, the place's own, those that names in `to` may mean, without names each workflow's latest."""
        runs = None if direction == "backward" else self.graph.runs_behind([begin.run_id, *self._meant_runs(to)])
        return walk(self.graph, begin, direction, pruned=pruned, runs=runs)

    def _meant_runs(self, to: Sequence[str] | None) -> list[str]:
        if to is None or ALL in to:
            return [run.id for run in self.reader.latest_runs()]
        names = [DatasetName.parse(name) for name in to]
        owners = [run.id for name in names if not name.run for run in self.reader.latest_runs_of_owners(name.name)]
        named = [run.id for name in names if name.run for run in self.reader.runs_with_prefix(name.run)]
        return [*owners, *(run_id for run_id in named if self.graph.datasets(run_id))]

    def _in_own_run(self, name: str, start: DatasetRecord, near: Walk) -> DatasetRecord | None:
        asked = DatasetName.parse(name)
        matches = [each for place in near.order for each in self.graph.datasets_at(place) if asked.matches(each)]
        matches = [each for each in matches if each.space != start.space]
        return matches[0] if len({each.space for each in matches}) == 1 else None

    def _targets(
        self, start: DatasetRecord, walked: Walk, direction: Direction, to: Sequence[str] | None
    ) -> list[DatasetRecord]:
        reachable = self._reachable(start, walked, direction)
        if to is None or ALL in to:
            self._refuse_uncaptured(start, reachable)
            # Sources that have read the same files are no step of the way; they are reached where they are named.
            same = {way.end for way in walked.ways if way.shared is not None and not self.graph.makers(way.end)}
            found = [each for each in reachable if Place(each.run_id, each.space) not in same]
            partly = self.partly_known(start, walked, direction)
            return self._each_once([each for each in found if each not in partly])
        return [self._target(name, start, reachable, walked, direction) for name in dict.fromkeys(to)]

    def _each_once(self, datasets: list[DatasetRecord]) -> list[DatasetRecord]:
        """Without datasets that another run of their workflow has too, with the very same rows."""
        found: dict[tuple[str, str], DatasetRecord] = {}
        for each in datasets:
            key = each.full_name, each.version_id
            if key not in found or self._is_later(each, found[key]):
                found[key] = each
        return [each for each in datasets if found[each.full_name, each.version_id] is each]

    def _is_later(self, one: DatasetRecord, other: DatasetRecord) -> bool:
        return self.graph.held_since(one.run_id) > self.graph.held_since(other.run_id)

    def _reachable(self, start: DatasetRecord, walked: Walk, direction: Direction) -> list[DatasetRecord]:
        """Datasets on the way; forward, those of each workflow's latest run, and of the start's own."""
        places = walked.reachable_places(absence=True)
        found = [each for place in walked.order if place in places for each in self.graph.datasets_at(place)]
        if direction == "backward":
            return found
        workflows = {each.workflow for each in found}
        latest = {flow: run.id for flow in workflows if (run := self.reader.latest_run(flow))}
        return [each for each in found if each.run_id in (start.run_id, latest.get(each.workflow))]

    def _target(
        self,
        name: str,
        start: DatasetRecord,
        reachable: list[DatasetRecord],
        walked: Walk,
        direction: Direction,
    ) -> DatasetRecord:
        asked = DatasetName.parse(name)
        everything = [each for place in walked.order for each in self.graph.datasets_at(place)]
        pool = everything if asked.run else reachable
        matches = [
            each for each in pool if asked.matches(each) and (each.run_id, each.space) != (start.run_id, start.space)
        ]
        matches = [each for each in matches if each.run_id == start.run_id] or without_readers(matches)
        matches = self.latest_of_same_rows(matches)
        if len({(each.run_id, each.space) for each in matches}) == 1:
            return matches[0]
        if matches:
            names = [f"{each.full_name}@{each.run_id}" for each in matches]
            raise QuestionError(f"'{name}' means several datasets here: {join_names(names)}", hint="name one of them")
        complete = self._walk_with_pruned(walked, direction)
        self._refuse_pruned(asked, walked, complete, direction)
        named = find_dataset(self.reader, name, str(self.home.path))  # says so where there is no such dataset at all
        if direction == "backward":
            elsewhere = self.read_elsewhere(named, asked, walked) or self.read_elsewhere(named, asked, complete)
            if elsewhere is not None:
                return elsewhere
        if direction == "forward":  # the message tells of all that is linked
            walked = self.walk_all(walked.start, direction)
            reachable = self._reachable(start, walked, direction)
        stale = (
            stale_reader_notes(self.graph, walked, start)
            if direction == "forward"
            else self.retention_cut_notes(walked.order)
        )
        self._refuse_uncaptured(start, reachable)
        names = list(dict.fromkeys(each.full_name for each in reachable))
        raise QuestionError(
            f"'{start.full_name}' and '{name}' are not linked in these runs; linked: {join_names(names)}",
            hint=next(iter(stale), None) or did_you_mean(name, [each.name for each in reachable]),
        )

    def latest_of_same_rows(self, matches: list[DatasetRecord]) -> list[DatasetRecord]:
        """The latest of datasets that all have the very same rows; else all of them."""
        places = list(dict.fromkeys(Place(each.run_id, each.space) for each in matches))
        both = [self.graph.shared_rows(places[0], other) for other in places[1:]]
        if not both or not all(each is not None and each.all for each in both):
            return matches
        latest = max(places, key=lambda place: (self.graph.held_since(place.run_id), place.run_id))
        return [each for each in matches if Place(each.run_id, each.space) == latest]

    def read_elsewhere(self, named: DatasetRecord, asked: DatasetName, walked: Walk) -> DatasetRecord | None:
        """The dataset of a name that is on no way, and has rows of one that is: another name for files that were read.
        Of several runs the latest that has just the same rows, else the latest that has some."""
        runs = [named.run_id] if asked.run else [run.id for run in self.reader.runs(named.workflow)]
        known = [each for run_id in runs for each in self.graph.datasets(run_id) if each.name == named.name]
        some = []
        for each in known:
            place = Place(each.run_id, each.space)
            same = [way.shared for way in walked.ending_at(self.graph, place).ways if way.end == place and way.shared]
            if any(rows.all for rows in same):
                return each
            some += [each] if same else []
        return some[0] if some else None

    def _refuse_pruned(self, asked: DatasetName, walked: Walk, complete: Walk, direction: Direction) -> None:
        """Says so where the two are linked, and that was not kept."""
        places = [place for place in complete.order if place != complete.start]
        for each in (each for place in places for each in self.graph.datasets_at(place) if asked.matches(each)):
            target = Place(each.run_id, each.space)
            missing = self._unkept_ways(walked, target, direction, absence=True)
            if missing:
                raise self._unkept_error(walked, target, direction, missing)

    def _unkept_error(self, walked: Walk, target: Place, direction: Direction, ways: Sequence[Way]) -> QuestionError:
        """Names the first of the ways that was not kept, and what keeps all of its run."""
        missing = [way for way in ways if is_missing(way, direction)]
        run_id = missing[0].start.run_id
        start, end = (self.graph.datasets_at(place)[0] for place in (walked.start, target))
        crossed = dict.fromkeys(_run_entry_and_exit(ways, way) for way in missing if way.start.run_id == run_id)
        ends = [(self.graph.datasets_at(near)[0], self.graph.datasets_at(far)[0]) for near, far in crossed]
        beside = [far.full_name for _, far in ends if far != end] if ends[0][0] == start else [ends[0][0].full_name]
        way = f", by way of {join_names(beside)}," if beside else ""
        what = f"lineage {'from' if direction == 'backward' else 'of'} '{start.full_name}' to '{end.full_name}'{way}"
        if any(
            each.hop is not None and each.hop.form == UNCAPTURED and each.start.run_id == run_id for each in missing
        ):
            return QuestionError(
                f"{what} is not known: run '{run_id}' was made with capture off and has no lineage",
                hint="run it again with --capture auto, and then what reads it",
            )
        names = [each.name for each in self.reader.prepared_questions(run_id)]
        lines = "\n".join(workload_entry(direction, near.name, far.name) for near, far in ends)
        return QuestionError(
            f"{what} was pruned in run '{run_id}': its workload declares other questions ({join_names(names)})",
            hint=f"add this to `lineage: workload:` and run again:  {lines}",
        )

    def partly_known(self, start: DatasetRecord, walked: Walk, direction: Direction) -> dict[DatasetRecord, list[Way]]:
        """Datasets that are linked with one in ways which were not kept, with those ways."""
        complete = self._walk_with_pruned(walked, direction)
        if complete is walked:
            return {}
        kept, found = walked.reachable_places(absence=True), {}
        for each in self._reachable(start, complete, direction):
            place = Place(each.run_id, each.space)
            missing = self._unkept_ways(walked, place, direction, absence=place not in kept)
            if missing:
                found[each] = [way for way in missing if is_missing(way, direction)]
        return found

    def omission_notes(
        self,
        start: DatasetRecord,
        walked: Walk,
        direction: Direction,
        targets: Sequence[DatasetRecord] = (),
        to: Sequence[str] | None = None,
    ) -> list[str]:
        """What to say of datasets that an answer leaves out since lineage was not kept, and of what is gone."""
        everything = to is None or ALL in to
        if direction == "backward":
            notes = self.retention_cut_notes(walked.order)
        else:
            notes = self.retention_cut_notes_of_runs(
                [start.run_id, *(walked.runs or ())] if everything else [t.run_id for t in targets]
            )
        if everything:
            notes += self.unkept_lineage_notes(start, walked, direction)
        return notes

    def unkept_lineage_notes(self, start: DatasetRecord, walked: Walk, direction: Direction) -> list[str]:
        """What to say of linked datasets whose lineage was not kept."""
        pruned: dict[str, None] = {}
        off: dict[str, dict[str, None]] = {}
        for each, missing in self.partly_known(start, walked, direction).items():
            runs = [way.start.run_id for way in missing if way.hop is not None and way.hop.form == UNCAPTURED]
            names = off.setdefault(runs[0], {}) if runs else pruned
            names[each.full_name] = None
        notes = [f"lineage was pruned, since no declared question needs it: {join_names(pruned)}"] if pruned else []
        return notes + [
            f"run '{run}' was made with capture off and has no lineage: not told is {join_names(names)}"
            for run, names in off.items()
        ]

    def retention_cut_notes(self, places: Iterable[Place]) -> list[str]:
        """What to say of ways back that end where a run is past its retention."""
        return [
            cut_note(self.graph.datasets_at(place)[0], run_id)
            for place, run_id in self._places_cut_by_retention(places)
        ]

    def retention_cut_notes_of_runs(self, runs: Iterable[str]) -> list[str]:
        """The same of all that runs have read, directly or over others."""
        return [
            cut_note(source, run_id) for source, run_id in self.sources_cut_by_retention(self.graph.runs_behind(runs))
        ]

    def sources_cut_by_retention(self, runs: Iterable[str]) -> list[tuple[DatasetRecord, str]]:
        """The sources of runs that runs made which are past their retention, with those."""
        places = dict.fromkeys(Place(each.run_id, each.space) for run_id in runs for each in self.graph.sources(run_id))
        return [(self.graph.datasets_at(place)[0], run_id) for place, run_id in self._places_cut_by_retention(places)]

    def _places_cut_by_retention(self, places: Iterable[Place]) -> list[tuple[Place, str]]:
        if not self.reader.runs(limit=1, status="expired"):
            return []
        sources = [place for place in places if is_source(place)]
        found = [(place, self.scan_at(place).version.expired) for place in sources]
        return [(place, run_id) for place, run_id in found if run_id is not None]

    def older_window_notes(self, walked: Walk, targets: Sequence[DatasetRecord], direction: Direction) -> list[str]:
        """What to say of windows on the way to these datasets that an earlier version captured."""
        places = [Place(each.run_id, each.space) for each in targets]
        ways = [way for place in places for way in self.ways_toward(walked, place, direction, absence=False)]
        return older_window_notes(ways)

    def _refuse_uncaptured(self, start: DatasetRecord, reachable: list[DatasetRecord]) -> None:
        run = next((run for run in self.reader.runs_with_prefix(start.run_id) if run.id == start.run_id), None)
        if not reachable and run is not None and run.capture == "off":
            raise QuestionError(
                f"run '{run.id}' was made with capture off and has no lineage", hint="run it again with --capture auto"
            )

    def _note_absence(
        self,
        answer: Answer,
        walked: Walk,
        target: DatasetRecord,
        start: DatasetRecord,
        direction: Direction,
        shape: AnswerShape,
    ) -> bool:
        """Whether the two are linked by absence only; the answer says so."""
        if self._contributes(walked, target, direction):
            return False
        side, result = (target, start) if direction == "backward" else (start, target)
        answer.absence = list(dict.fromkeys([*answer.absence, side.name]))
        if not shape.influence:
            answer.notes.append(
                f"'{side.full_name}' has no rows in '{result.full_name}': it only influences it by the absence of "
                "a match; --influence shows that side's rows"
            )
        return True

    # --- rows of a version ------------------------------------------------------------------------------------

    def scan(self, dataset: DatasetRecord) -> VersionScan:
        key = f"{dataset.version_id} {dataset.run_id} {dataset.name}"
        if key not in self._scans:
            found = self.graph.version(dataset.version_id)
            if found is None:
                raise NotFound(f"version '{dataset.version_id}' is not in the catalog of '{self.home.path}'")
            version = apply_source_renames(found, dataset)
            paths = tuple(self.home.absolute(file.path) for file in version.files)
            self._scans[key] = VersionScan(version, paths, self.home.absolute)
        return self._scans[key]

    def start(self, dataset: DatasetRecord, selection: Selection) -> Start:
        if not selection.is_specified or selection.all:
            return Start()
        scan = self.scan(dataset)
        if selection.rid is not None:
            self._refuse_unknown_rids(dataset, scan, selection.rid)
        if not selection.reads_rows:
            return Start(rids=selection.rid)
        return self.start_of(
            self._rids_by_predicate(dataset, self._scan_for_predicate(dataset, scan, selection), selection)
        )

    def _scan_for_predicate(self, dataset: DatasetRecord, scan: VersionScan, selection: Selection) -> VersionScan:
        """The files that a predicate has to look into; SourceError where one of them has changed."""
        import pyarrow as pa

        changed, held = changed_files(scan), None
        if changed and selection.rid is not None:
            held = files_holding(scan, pa.array(sorted(selection.rid), pa.int64()))
        elif changed:
            masked = self.masks.over(dataset, reveal=selection.reveal)
            held = {index: int(may_hold(self.engine, scan, index, selection, masked)) for index in changed}
        if held is not None and not any(held.get(index) for index in changed):
            return scan.without_files(changed)
        refuse_changed(dataset, scan, changed, held if selection.rid is not None else None)
        return scan

    def _rids_by_predicate(self, dataset: DatasetRecord, scan: VersionScan, selection: Selection) -> pa.Array:
        """The rids that a predicate takes. A version never changes: of few rows, what was found once is kept, apart for
        questions that reveal."""
        masked = self.masks.over(dataset, reveal=selection.reveal)
        key = (dataset.version_id, dataset.run_id, dataset.name, selection)
        if key in self._taken:
            return self._taken[key]
        found = rids_where(self.engine, self.session, dataset, scan, selection, masked)
        if scan.version.rows <= HELD and "current" not in (selection.where or "").lower():
            if len(self._taken) >= MOST_TAKEN:
                self._taken.clear()
            self._taken[key] = found
        return found

    def start_of(self, ids: pa.Array) -> Start:
        """A start at these rids: named one by one where they are few, so that scans can leave out the rest."""
        if 0 < len(ids) <= FEW:
            return Start(rids=tuple(ids.to_pylist()))
        return Start(table=self.engine.keep_ids(ids))

    def rows_of(
        self, dataset: DatasetRecord, scan: VersionScan, start: Start, shape: AnswerShape, keyed: Keyed | None = None
    ) -> AnswerPart:
        """Rows of a dataset, masked unless the shape reveals them.

        `keyed` makes a query that gives the same rows by a scan of the keys behind them.
        """
        masked = self.masks.over(dataset, reveal=shape.reveal)
        return rows_part(self.engine, self.session, dataset, scan, start, shape, keyed, masked)

    def _refuse_unknown_rids(self, dataset: DatasetRecord, scan: VersionScan, rids: Sequence[int]) -> None:
        missing = [rid for rid in rids if rid < 0 or scan.position(rid) is None]
        if missing:
            end = scan.version.end
            exists = f"rids run from 0 to {end - 1}" if end else "it has no rows"
            gaps = "" if scan.version.is_dense else ", with gaps where rows were removed"
            raise NotFound(
                f"no row {join_names([str(rid) for rid in missing], 5)} in '{dataset.full_name}': {exists}{gaps}"
            )


def _run_entry_and_exit(ways: Sequence[Way], missing: Way) -> tuple[Place, Place]:
    """Where ways over one of them come into its run, and where they leave it or end."""

    def inside(place: Place, *, ahead: bool) -> Place:
        for way in ways:
            here, there = (way.start, way.end) if ahead else (way.end, way.start)
            if here == place and way.hop is not None:
                return inside(there, ahead=ahead)
        return place

    return inside(missing.start, ahead=False), inside(missing.end, ahead=True)


def _kind(shape: AnswerShape) -> Kind:
    return "pairs" if shape.pairs else "count" if shape.count else "rids" if shape.rids else "rows"
