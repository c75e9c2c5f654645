"""The questions rows, backward and forward: names, graph, SQL and engine combined to answers, without Spark."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import NotFound, QuestionError, join_names
from lineage_service.query.answer import Answer, AnswerPart, records
from lineage_service.query.answer_shape import AnswerShape, Top
from lineage_service.query.contributors import Contributors, RankingMeasure, deciding_columns, measure_of
from lineage_service.query.guarded_session import Session
from lineage_service.query.home_files import HomeFiles, index_files
from lineage_service.query.hop_sql import key_columns, keyed_rows, stored_file
from lineage_service.query.index_lookup import Lookups
from lineage_service.query.lineage_graph import Direction, LineageGraph, Place, Way
from lineage_service.query.lineage_targets import LineageTargets
from lineage_service.query.lineage_walk import Walk
from lineage_service.query.masks import NONE, Masks
from lineage_service.query.query_engine import QueryEngine, translate_index_errors
from lineage_service.query.retention_cuts import RetentionCuts
from lineage_service.query.row_retrieval import Keyed, id_part, limit_notes, pairs_part, rows_part
from lineage_service.query.selection import HELD, Selection
from lineage_service.query.staleness_notes import older_window_notes, stale_reader_notes
from lineage_service.query.start_rows import StartRows
from lineage_service.query.unkept_lineage import UnkeptLineage
from lineage_service.query.walk_sql import Start, WalkSql, walk_sql
from lineage_service.query.window_counts import rows_behind_window, rows_reading_one
from lineage_service.store.dataset_names import ALL
from lineage_service.store.duckdb_engine import column
from lineage_service.store.layout import HomeLayout
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import apply_source_renames

if TYPE_CHECKING:
    from lineage_service.runs.committed_run import CommittedRun


Lazily = Callable[[Sequence[Way], Start, Place, Direction], Sequence[Way]]
Members = Callable[[Place, Sequence[int]], str]
Kept = TypeVar("Kept")


def _no_lazy(ways: Sequence[Way], start: Start, begin: Place, direction: Direction) -> Sequence[Way]:
    _ = start, begin, direction
    raise QuestionError(f"the lineage of run '{ways[0].start.run_id}' is captured on demand only, by Spark")


def _no_members(place: Place, ids: Sequence[int]) -> str:
    _ = ids
    raise QuestionError(f"the lineage of run '{place.run_id}' is captured on demand only, by Spark")


class Questions:
    """Questions over one home. They cache what they read of committed runs, which never change.

    unkept: lineage that was not kept
    cuts: where lineage ends at runs past their retention
    targets: resolves dataset names and walks to them
    starts: finds the rows that questions start from
    """

    def __init__(
        self,
        home: HomeLayout,
        reader: CatalogReader,
        engine: QueryEngine,
        finish_lineage: Callable[[str], None] | None = None,
        lazily: Lazily | None = None,
        members: Members | None = None,
    ) -> None:
        self.home, self.reader, self.engine = home, reader, engine
        self.graph = LineageGraph(reader, finish_lineage, home.absolute)
        self.files = HomeFiles(home.absolute, self.scan_at)
        self.lookups = Lookups()
        self.session = Session(engine.spill)
        self.masks = Masks(reader, self.scan)
        self.unkept = UnkeptLineage(self.graph)
        self.cuts = RetentionCuts(self.graph, self.scan_at)
        self.targets = LineageTargets(str(home.path), reader, self.graph, self.unkept, self.cuts)
        self.starts = StartRows(engine, self.session, self.masks, self.scan)
        self.lazy: Lazily = lazily or _no_lazy
        self.members: Members = members or _no_members
        self._kept: dict[object, Any] = {}
        self.asked: list[Path] = []  # pairs captured on demand; removed together with the questions
        self._runs: dict[str, CommittedRun] = {}
        self._scans: dict[str, VersionScan] = {}

    def committed_run(self, run_id: str) -> CommittedRun:
        """A run with its workflow, plan and versions."""
        from lineage_service.runs.committed_run import load_run

        if run_id not in self._runs:
            self._runs[run_id] = load_run(self.home, self.reader, run_id)
        return self._runs[run_id]

    def keep(self, key: object, make: Callable[[], Kept]) -> Kept:
        """The cached value for `key`, else what `make` gives; dropped when runs are removed from the catalog."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: Kept = self._kept[key]
        return kept

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
        if shape.top is not None and to is None:
            raise QuestionError("top ranks rows of one dataset: say which, with to")
        if not selection.is_specified:
            raise QuestionError("say which rows to start from: rid, key, where or all")
        found = self.find(dataset)
        walked, targets = self.targets.walk_to(found, direction, to)
        start = self.start(found, selection)
        if to is None:
            answer = self._counts(walked, start, targets, direction, shape)
        else:
            several = len(targets) > 1 or ALL in to or len(to) > 1
            answer = Answer([], shape.kind)
            measures, names = self._measures(targets, shape), self.targets.labels(targets)
            for target in targets:
                if shape.top is not None:
                    part = self._ranked_part(answer, found, walked, start, target, shape.top, measures[target], shape)
                else:
                    part = self._part(walked, start, target, direction, shape)
                part.absent = self._note_absence(answer, walked, target, found, direction, shape)
                part.dataset = names[target] if several else None
                self.masks.note_hidden(part.masked)
                answer.notes += part.notes
                answer.parts.append(part)
        answer.notes += self.older_window_notes(walked, targets, direction)
        answer.notes += limit_notes(shape, counts=to is None)
        if direction == "forward" and (to is None or ALL in to):
            answer.notes += stale_reader_notes(self.graph, walked, found)
        answer.notes += self.omission_notes(found, walked, direction, targets, to)
        if direction == "backward" and found.role == "source" and not targets and not self.cuts.notes(walked.order):
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
            return pairs_part(self.engine, sql, direction, shape)
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
        """The ranking measure of each target. All are checked before any row is read."""
        if shape.top is None:
            return {}
        masked = {each: self.masks.over(each, reveal=shape.reveal) for each in targets}
        return {each: measure_of(shape.top.by, each, self.scan(each), masked[each]) for each in targets}

    def _ranked_part(
        self,
        answer: Answer,
        dataset: DatasetRecord,
        walked: Walk,
        start: Start,
        target: DatasetRecord,
        top: Top,
        measure: RankingMeasure,
        shape: AnswerShape,
    ) -> AnswerPart:
        """The highest-ranked contributors. Those that decide a min or max of the rows asked about are marked."""
        deciding: dict[str, str] = {}
        if not shape.influence:  # rows that matched nothing decide nothing
            deciding, note = deciding_columns(self.reader.columns(dataset.run_id), dataset, target)
            answer.notes += [note] if note else []
        masked = self.masks.over(target, reveal=shape.reveal)
        # Marking the row with the largest value would disclose a masked value.
        beside = self.masks.over(dataset, reveal=shape.reveal) if deciding else NONE
        hidden = [name for name, by in deciding.items() if name.lower() in beside or by.lower() in masked]
        if hidden:
            answer.notes.append(f"which rows decide {join_names(hidden)} is not marked: it is masked")
        deciding = {name: by for name, by in deciding.items() if name not in hidden}
        sql = self._walk_sql(walked, start, target, "backward", shape, pairs=bool(deciding))
        ranked = Contributors(
            self.engine, self.session, dataset, self.scan(dataset), target, self.scan(target), measure, deciding, masked
        )
        return ranked.part(start, sql, top, shape)

    def _part_from_index(
        self, walked: Walk, start: Start, target: DatasetRecord, direction: Direction, shape: AnswerShape
    ) -> AnswerPart | None:
        """The answer for one row from one index file; None if the question needs more than that."""
        if start.rids is None or len(start.rids) != 1 or shape.pairs or (shape.rids and shape.limit is not None):
            return None
        ways = self.unkept.ways_toward(walked, Place(target.run_id, target.space), direction, absence=shape.influence)
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
        """A scan for the rows behind these by the key values they contain; None if there is no such key."""
        columns = key_columns(way)
        return None if columns is None else lambda: keyed_rows(way, self._keys(way.start, columns, rids), self.files)

    def _keys(self, place: Place, columns: Sequence[str], rids: Sequence[int]) -> list[tuple[Any, ...]]:
        """The values of rows in these columns."""
        scan = self.scan_at(place)
        names, wanted = ", ".join(map(column, columns)), ", ".join(map(str, rids))
        if scan.version.rows <= HELD:
            rows = self.engine.held_table(scan.nan_safe(scan.select()))
            return self.engine.rows(f"SELECT {names} FROM {rows} WHERE {RID} IN ({wanted})")
        positions = [position for rid in rids if (position := scan.position(rid)) is not None]
        return self.engine.rows(f"SELECT {names} FROM ({scan.select_positions(positions, columns)})")

    def _counts(
        self, walked: Walk, start: Start, targets: list[DatasetRecord], direction: Direction, shape: AnswerShape
    ) -> Answer:
        names = self.targets.labels(targets)
        counted = [(names[each], self._total(walked, start, each, direction, shape)) for each in targets]
        answer = records(["dataset", "rows"], counted)
        answer.kind = "counts"
        answer.absence = [names[each] for each in targets if not self._contributes(walked, each, direction)]
        if answer.absence and not shape.influence:
            answer.notes.append(f"only by absence of a match: {join_names(answer.absence)}")
        return answer

    def _total(
        self, walked: Walk, start: Start, target: DatasetRecord, direction: Direction, shape: AnswerShape
    ) -> int:
        """The number of rows of a dataset that are reached."""
        place = Place(target.run_id, target.space)
        ways = self.unkept.ways_toward(walked, place, direction, absence=shape.influence)
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
        ways = self.unkept.ways_toward(walked, place, direction, absence=shape.influence)
        return self.walk_sql(ways, start, walked.start, place, direction, pairs=pairs)

    def _contributes(self, walked: Walk, target: DatasetRecord, direction: Direction) -> bool:
        """Whether rows of a dataset contribute, as opposed to influence by absence only."""
        return bool(self.unkept.ways_toward(walked, Place(target.run_id, target.space), direction, absence=False))

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
        """The SQL of a walk. Lazy ways are captured here."""
        if any(way.hop is not None and way.hop.form is HopForm.LAZY for way in ways):
            ways = self.lazy(ways, start, begin, direction)
        return walk_sql(ways, start, begin, target, direction, self.files, pairs=pairs)

    def scan_at(self, place: Place) -> VersionScan:
        return self.scan(self.graph.datasets_at(place)[0])

    def omission_notes(
        self,
        start: DatasetRecord,
        walked: Walk,
        direction: Direction,
        targets: Sequence[DatasetRecord] = (),
        to: Sequence[str] | None = None,
    ) -> list[str]:
        """Notes about datasets that an answer leaves out because lineage was not kept or was removed."""
        everything = to is None or ALL in to
        if direction == "backward":
            notes = self.cuts.notes(walked.order)
        else:
            notes = self.cuts.notes_of_runs(
                [start.run_id, *(walked.runs or ())] if everything else [t.run_id for t in targets]
            )
        if everything:
            notes += self.unkept.notes(start, walked, direction)
        return notes

    def older_window_notes(self, walked: Walk, targets: Sequence[DatasetRecord], direction: Direction) -> list[str]:
        """Notes about windows on the way to these datasets that an earlier version captured."""
        places = [Place(each.run_id, each.space) for each in targets]
        ways = [way for place in places for way in self.unkept.ways_toward(walked, place, direction, absence=False)]
        return older_window_notes(ways)

    def _note_absence(
        self,
        answer: Answer,
        walked: Walk,
        target: DatasetRecord,
        start: DatasetRecord,
        direction: Direction,
        shape: AnswerShape,
    ) -> bool:
        """Whether the two are linked by absence only. Adds a note to the answer in that case."""
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

    def find(self, dataset: str) -> DatasetRecord:
        """The dataset with this name. Raises NotFound if there is none."""
        return self.targets.find(dataset)

    def start(self, dataset: DatasetRecord, selection: Selection) -> Start:
        """The rows of a dataset that a selection matches."""
        return self.starts.find(dataset, selection)

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

    def rows_of(
        self, dataset: DatasetRecord, scan: VersionScan, start: Start, shape: AnswerShape, keyed: Keyed | None = None
    ) -> AnswerPart:
        """Rows of a dataset, masked unless the shape reveals them.

        `keyed` returns a query that finds the same rows by their keys.
        """
        masked = self.masks.over(dataset, reveal=shape.reveal)
        return rows_part(self.engine, self.session, dataset, scan, start, shape, keyed, masked)
