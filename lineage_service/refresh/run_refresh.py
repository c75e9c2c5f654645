"""One refresh, as a table of contents: what changed in the sources, each dataset's touched rows computed anew, those
below first, their lineage beside that of the run before; then one commit. What fails before it leaves nothing behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, SubjectRecord, VersionRecord

from lineage_service.capture.direct_indexing import NotTranslatable
from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.errors import LineageError, Problem, QuestionError, SourceError
from lineage_service.plan.identity_columns import identity_columns
from lineage_service.plan.nodes import Node
from lineage_service.progress import Stages
from lineage_service.query.changed_files import refuse_changed
from lineage_service.query.lineage_graph import Place, is_pruned, walk
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.refresh.duckdb_refresh import DatasetState, DuckDbRefresh
from lineage_service.refresh.fresh_lineage import FreshLineage, copy_hops, hops_to_nearest_datasets
from lineage_service.refresh.refresh_report import DatasetReport, RefreshReport
from lineage_service.refresh.row_replacement import RowReplacement, match_rows
from lineage_service.refresh.source_changes import SourceChange
from lineage_service.refresh.spark_refresh import SparkRefresh
from lineage_service.refresh.unchanged_rows import RecomputedDataset, is_determined, keep_unchanged, rows_behind
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.settings import IndexOptions
from lineage_service.spec.redaction_markers import is_computable
from lineage_service.store.duckdb_engine import column, file_literal
from lineage_service.store.home_key import home_key
from lineage_service.store.layout import HomeLayout, RunFolder
from lineage_service.store.session_settings import save_settings
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version
from lineage_service.subjects.derived_index import add_refresh_layer, rewrite_index
from lineage_service.subjects.source_indexing import existing_index
from lineage_service.subjects.subject_index import SubjectIndex, declared_subjects

if TYPE_CHECKING:
    from lineage_service.spark.recomputation import RecomputedRows, TouchedRowFiles


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a dataset that are taken out instead of being computed anew, and why; no reason where there is nothing
    that they could be computed from. `kept`: how many stay as they are, although rows that they were made from went."""

    rids: Ids
    reason: str | None
    kept: int = 0


@dataclass
class Refresh:
    """A run on its way to be brought up to date, in the folder of the run that it becomes."""

    home: HomeLayout
    ask: Questions
    run: RunRecord
    folder: RunFolder
    options: IndexOptions
    stages: Stages
    versions: dict[str, Version] = field(default_factory=dict)  # by space, as they are now
    hops: list[HopRecord] = field(default_factory=list)
    reports: dict[str, DatasetReport] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    states: dict[str, DatasetState] = field(default_factory=dict)
    by_spark: list[str] = field(default_factory=list)  # steps that DuckDB could not compute alike
    in_place: bool = False  # the new run takes the place of the old one: datasets that stay are the same versions
    _is_left: bool = False
    _has_lineage: bool = True

    def __post_init__(self) -> None:
        before = CommittedRun(self.home, self.ask.reader, self.run)
        self.records, self.loaded, self.plan, self.settings = (
            before.datasets, before.workflow, before.plan, before.settings
        )  # fmt: skip
        self.scans: dict[str, VersionScan] = {each.space: self.ask.scan(each) for each in self.records}
        self.patcher = Patcher(self.folder)
        self.spark = SparkRefresh(
            self.plan, self.loaded, self.folder, self.states, self.options, self.stages, self.settings, self._old_rows
        )

    # --- the way ----------------------------------------------------------------------------------------------

    def refresh_datasets(
        self,
        changes: Mapping[str, SourceChange],
        only: Collection[str] | None = None,
        *,
        lineage: bool = True,
        deleted: Mapping[str, DeletedRows] | None = None,
    ) -> None:
        """Brings every dataset of the run up to date; or `only` these steps, and those that they are computed from.
        Without `lineage` only their rows. Of steps in `deleted`, rows are taken out instead."""
        began = time.monotonic()
        before = self.ask.graph.hops(self.run.id)
        deleted = deleted or {}
        if not all(step in deleted for step in self._dataset_steps(only)):
            refuse_unanswerable(self.run, before)
            refuse_redacted(self.run, self.ask.reader.content(self.run.id))
            self._refuse_changed(changes)
        self.versions = {space: scan.version for space, scan in self.scans.items()}
        self.versions |= {f"source:{name}": each.after for name, each in changes.items()}
        for source in self.plan.sources.values():
            self.states[source.id] = self._source_state(source, changes.get(source.step))
        self._has_lineage = lineage
        near = DuckDbRefresh(self.ask.engine, self.folder, self.states, self._rids_from_seeds, lineage)
        spark = self.spark
        for number, step in enumerate(self._dataset_steps(only)):
            space = step_space(step)
            node = self.plan.steps[step]
            self._is_left = step not in deleted
            rows = None
            if (
                self._is_left
                and spark.is_touched(node)
                and means_the_same({**(self.settings or {}), **self.options.conf})
            ):
                rows = self._refresh_by_duckdb(near, node, number, before)
            if rows is None and self._is_left and spark.is_touched(node):
                rows = self._refresh_by_spark(spark, node, number, before)
            if rows is None:
                self._carry_over(space, before)
            none = np.array([], np.int64)
            gone, came = (none, none) if rows is None else (rows.gone, rows.came)
            if step in deleted:
                gone = self._delete(space, deleted[step])
            self.states[node.id] = DatasetState(space, self.scans[space], self._scan(self.versions[space]), gone, came)
        self.seconds["refresh"] = round(time.monotonic() - began, 3)

    def _refuse_changed(self, changes: Mapping[str, SourceChange]) -> None:
        """SourceError where a file is no longer what the run read, and nobody has said or found out what changed: old
        rows and new ones would be mixed."""
        for record in self.records:
            change = changes.get(record.name)
            if record.role == "source" and (change is None or not change.found):
                scan = self.scans[record.space]
                refuse_changed(record, scan, range(len(scan.paths)))

    def _source_state(self, node: Node, change: SourceChange | None) -> DatasetState:
        scan, none = self.scans[f"source:{node.step}"], np.array([], np.int64)
        space = source_space(node.step)
        if change is None:
            return DatasetState(space, scan, scan, none, none)
        return DatasetState(space, scan, self._scan(change.after), change.gone, change.came, change.readable)

    def _scan(self, version: Version) -> VersionScan:
        paths = tuple(self.home.absolute(file.path) for file in version.files)
        return VersionScan(version, paths, self.home.absolute)

    def _refresh_by_duckdb(
        self, near: DuckDbRefresh, node: Node, number: int, before: Sequence[HopRecord]
    ) -> RowReplacement | None:
        """A dataset brought up to date by DuckDB alone; where only Spark can, it is left."""
        space = step_space(node.step)
        self._is_left = False
        try:
            found = near.recompute(node, self.scans[space])
        except (NotTranslatable, QuestionError, SourceError):
            self._is_left = True
            return None
        if found is None:
            return None
        touched = found.touched or self._rids_from_seeds(space, found.seeds)
        after = self._scan(found.version)
        rows = match_rows(self.ask.engine, self.scans[space], after, touched, identity_columns(node))
        rows = self._without_unchanged(node, rows, after, lambda places: near.behind(found, places))
        self._replace_rows(space, rows, "touched", None)
        if not self._has_lineage:
            return rows
        mask = self.patcher.write_mask(np.union1d(rows.replaced, rows.rids))
        self.hops += copy_hops(hops_to_nearest_datasets(before, space), self.folder.run_id, space, mask)
        self.hops += near.hops(node.step, found, rows, number)
        return rows

    def _refresh_by_spark(
        self, spark: SparkRefresh, node: Node, number: int, before: Sequence[HopRecord]
    ) -> RowReplacement | None:
        space = step_space(node.step)
        self.by_spark.append(node.step)
        found = spark.recompute(node.step)
        if found is None:
            return None
        rows = self._match_recomputed(space, found)
        path = self.folder.temporary / f"behind-{number}.parquet"
        fresh = FreshLineage(self.folder, found.tables, found.rows, found.version, rows.places, rows.rids)
        came = {state.space: state.came for state in self.states.values() if len(state.came)}
        rows = self._without_unchanged(
            node, rows, self._scan(found.version), lambda places: fresh.behind(places, came, path)
        )
        if self._has_lineage:
            self._add_lineage(space, before, found, rows, number)
        self._replace_rows(space, rows, "all" if found.meant is None else "touched", found.reason)
        return rows

    def _replace_rows(self, space: Space, rows: RowReplacement, way: str, reason: str | None) -> None:
        then = self.versions[space]
        all_gone = way == "all" and len(rows.replaced) == then.rows
        now = self.patcher.patch_version(then, rows.replaced, rows.files, all_gone=all_gone)
        self.versions[space] = now
        self.reports[space.removeprefix("step:")] = DatasetReport(
            way, now.rows, **rows.counts, reason=reason, computed=len(rows.rids)
        )

    def _rids_from_seeds(self, space: Space, seeds: Mapping[Space, Ids]) -> str:
        """A query of the rids, before, of rows that come from these rows of datasets below."""
        parts = ["SELECT NULL::BIGINT AS b WHERE false"]
        for seed, rids in seeds.items():
            if len(rids):
                parts.append(self._rids_ahead(space, seed, self.ask.engine.keep_ids(pa.array(rids, pa.int64()))))
        return f"SELECT DISTINCT b FROM ({' UNION ALL '.join(parts)})"

    def _old_rows(self, step: str, seed: Space) -> tuple[Version, Ids]:
        """A dataset before, and the rids of its rows that come from rows of a dataset below which went."""
        gone = next(state.gone for state in self.states.values() if state.space == seed)
        space = step_space(step)
        return self.scans[space].version, _id_array(
            self.ask.engine.id_array(self._rids_from_seeds(space, {seed: gone}))
        )

    def _rids_ahead(self, space: Space, seed: Space, table: str) -> str:
        engine = self.ask.engine
        begin, end = Place(self.run.id, seed), Place(self.run.id, space)
        ways = walk(self.ask.graph, begin, "forward", links=False, nearest=True).ways_toward(end, absence=False)
        sql = self.ask.walk_sql(ways, Start(table=table), begin, end, "forward", pairs=False)
        return f"SELECT b FROM {engine.keep(f'SELECT DISTINCT b FROM ({sql.text})', sql.parameters)}"

    def _without_unchanged(
        self, node: Node, rows: RowReplacement, after: VersionScan, behind: Callable[[Ids], str | None]
    ) -> RowReplacement:
        """Without the rows that nothing behind them has changed: they stay as they were. Where the run takes the place
        of the one before, as in an erasure, everything that was computed is written."""
        if self.in_place:
            return rows
        space = step_space(node.step)
        computed = RecomputedDataset(
            self.scans[space],
            after,
            behind,
            lambda table: rows_behind(self.ask, self.run.id, space, table),
            is_determined(node, self.states),
        )
        return keep_unchanged(self.ask.engine, rows, computed, list(self.states.values()))

    def _dataset_steps(self, only: Collection[str] | None) -> list[str]:
        """The steps that are datasets, those below first."""
        wanted = {self.plan.steps[step].id for step in (*self.plan.outputs.values(), *self.plan.keep)}
        if only is not None:
            needed, pending = set[str](), [self.plan.steps[step] for step in only]
            while pending:
                node = pending.pop()
                if node.id not in needed:
                    needed.add(node.id)
                    pending += node.inputs
            wanted &= needed
        return [node.step for node in self.plan.nodes() if node.id in wanted]

    def _delete(self, space: Space, deleted: DeletedRows) -> Ids:
        """Takes rows out of a dataset that was left as it was; those that it had."""
        then = self.versions[space]
        rids = np.intersect1d(deleted.rids, _id_array(self.ask.engine.id_array(self._scan(then).all_rids())))
        if len(rids):
            self.versions[space] = now = self.patcher.patch_version(then, rids, [])
            mask = self.patcher.write_mask(rids)
            self.hops = [each for hop in self.hops for each in copy_hops([hop], self.folder.run_id, space, mask)]
            told = DatasetReport("deleted", now.rows, removed=len(rids), reason=deleted.reason)
            self.reports[space.removeprefix("step:")] = told
        return rids

    def _carry_over(self, space: Space, before: Sequence[HopRecord]) -> None:
        version = self.versions[space]
        if not self.in_place:
            # A version of its own: who reads the one before is led to the run before.
            self.versions[space] = self.patcher.patch_version(version, np.array([], np.int64), [])
        self.hops += copy_hops(hops_to_nearest_datasets(before, space), self.folder.run_id, space, None)
        self.reports[space.removeprefix("step:")] = DatasetReport("untouched", version.rows)

    def _match_recomputed(self, space: Space, found: RecomputedRows) -> RowReplacement:
        step = space.removeprefix("step:")
        paths = tuple(self.home.absolute(file.path) for file in found.version.files)
        before = VersionScan(self.versions[space], self.scans[space].paths, self.home.absolute)
        after = VersionScan(found.version, paths, self.home.absolute)
        touched = None if found.meant is None else self._touched_rids(space, found.meant)
        return match_rows(self.ask.engine, before, after, touched, identity_columns(self.plan.steps[step]))

    def _touched_rids(self, space: Space, meant: Sequence[TouchedRowFiles]) -> str:
        """A query of the rids, before, of the rows that are meant."""
        engine, parts = self.ask.engine, []
        for each in meant:
            files = f"read_parquet([{', '.join(file_literal(file) for file in each.files)}])"
            if each.seed is None:
                scan = self.scans[space].select(each.columns)
                same = " AND ".join(
                    f"t.{column(name)} IS NOT DISTINCT FROM k.k{index}" for index, name in enumerate(each.columns)
                )
                parts.append(f"SELECT {RID} AS b FROM ({scan}) t SEMI JOIN {files} k ON {same}")
                continue
            parts.append(self._rids_ahead(space, each.seed, engine.keep(f"SELECT DISTINCT k0 AS b FROM {files}")))
        return f"SELECT DISTINCT b FROM ({' UNION ALL '.join(parts)})"

    def _add_lineage(
        self, space: Space, before: Sequence[HopRecord], found: RecomputedRows, rows: RowReplacement, number: int
    ) -> None:
        if found.meant is not None or len(rows.replaced) < self.versions[space].rows:
            mask = self.patcher.write_mask(np.union1d(rows.replaced, rows.rids))
            self.hops += copy_hops(hops_to_nearest_datasets(before, space), self.folder.run_id, space, mask)
        fresh = FreshLineage(self.folder, found.tables, found.rows, found.version, rows.places, rows.rids)
        self.hops += fresh.hops(number)

    # --- the commit -------------------------------------------------------------------------------------------

    def commit(
        self, changes: Mapping[str, SourceChange], started: datetime, warnings: Sequence[Problem]
    ) -> tuple[Commit, RefreshReport]:
        """All that the catalog will hold of the new run."""
        if self.settings is not None:
            save_settings(self.folder, self.settings)
        datasets, versions = [], {}
        for record in self.records:
            if record.role == "failing":
                continue
            version = self.versions[record.space]
            datasets.append(replace(record, run_id=self.folder.run_id, version_id=version.id))
            versions[version.id] = version
        shown = {
            record.name: self.reports[record.space.removeprefix("step:")]
            for record in self.records
            if record.role in ("output", "step")
        }
        report = RefreshReport(
            self.folder.run_id,
            self.run.id,
            self.run.workflow,
            {name: each.counts for name, each in changes.items()},
            shown,
            self.seconds,
            tuple(str(each) for each in warnings),
        )
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        run = replace(
            self.run,
            id=self.folder.run_id,
            report=json.dumps(self._run_report(report, datasets)),
            started_at=started.isoformat(timespec="milliseconds"),
            committed_at=now,
            lineage="complete",
            lineage_note=None,
            held_since=self.run.held_since or self.run.committed_at if self.in_place else None,
        )
        steps = tuple(
            replace(each, rows=self._rows_of(each.node, each.rows)) for each in self.ask.reader.steps(self.run.id)
        )
        return Commit(
            run,
            self.ask.reader.content(self.run.id) or "{}",
            steps,
            tuple(
                VersionRecord(v.id, v.kind, self.folder.run_id, v.rows, v.bytes, v.to_json()) for v in versions.values()
            ),
            tuple(datasets),
            tuple(dict.fromkeys(self.hops)),
            tuple(
                replace(each, run_id=self.folder.run_id)
                for each in self.ask.reader.columns(self.run.id)
                if each.dataset in {record.name for record in datasets}
            ),
            tuple(self._subjects(changes)),
        ), report

    def _subjects(self, changes: Mapping[str, SourceChange]) -> Iterator[SubjectRecord]:
        """Whose rows are whose in the sources that changed; of one that nobody noted, it is found in the rows."""
        key = home_key(self.home)
        index = SubjectIndex(self.ask.engine.connection, self.folder, key)
        for record in self.records:
            change = changes.get(record.name)
            if record.role != "source" or change is None:
                continue
            for each in declared_subjects(record.name, json.loads(record.declared).get("subject")):
                known = existing_index(each, change.before, self.ask.reader.subjects, key)
                after = self._scan(change.after)
                if existing_index(each, change.after, self.ask.reader.subjects, key) is None and known is not None:
                    carried = (
                        rewrite_index(index, each, known, after, change.came)
                        if self.in_place
                        else add_refresh_layer(index, each, known, after, change.gone, change.came)
                    )
                    yield carried

    def _rows_of(self, node: str, rows: int | None) -> int | None:
        version = self.versions.get(f"step:{node}") or self.versions.get(f"source:{node}")
        return version.rows if version is not None and rows is not None else rows

    def _run_report(self, report: RefreshReport, datasets: Sequence[DatasetRecord]) -> dict[str, object]:
        """In the shape that `run --json` prints, and what the refresh did."""
        found: dict[str, object] = json.loads(self.run.report)
        captured: dict[str, Any] = json.loads(self.run.report).get("capture", {})
        by_role = {role: [each for each in datasets if each.role == role] for role in ("output", "source")}
        found |= {
            "run_id": self.folder.run_id,
            "outputs": {
                each.name: {"rows": self.versions[each.space].rows, "bytes": self.versions[each.space].bytes}
                for each in by_role["output"]
            },
            "sources": {each.name: {"rows": self.versions[each.space].rows} for each in by_role["source"]},
            "capture": {
                output: {source: {**facts, "pairs": None, "bytes": None} for source, facts in sources.items()}
                for output, sources in captured.items()
            },
            "seconds": {"execute": self.seconds.get("refresh", 0.0), "capture": 0.0, "index": 0.0},
            **({"supersedes": self.run.id} if self.in_place else {"refreshed": report.to_json()}),
        }
        return found


def _id_array(ids: pa.Array) -> Ids:
    found: Ids = ids.to_numpy(zero_copy_only=False).astype("int64")
    return found


# Settings under which Spark may read or compute otherwise than the files and the standard say.
UNLIKE = ("spark.sql.legacy.", "spark.sql.parquet.datetimeRebase", "spark.sql.parquet.int96Rebase",
          "spark.sql.decimalOperations", "spark.sql.caseSensitive", "spark.sql.session.collation")  # fmt: skip


def means_the_same(settings: Mapping[str, str]) -> bool:
    """Whether expressions that are alike to both engines are so under these settings of Spark."""
    return not any(key.startswith(UNLIKE) for key in settings)


def refuse_redacted(run: RunRecord, content: str | None) -> None:
    """LineageError where the run's text no longer means what it meant."""
    if not is_computable(content or "{}"):
        raise LineageError(
            f"a value in the text of run '{run.id}' was erased: its steps can no longer be computed as they were",
            hint="run the workflow again",
        )


def refuse_unanswerable(run: RunRecord, hops: Sequence[HopRecord]) -> None:
    """LineageError where the run's lineage is not all there: rows could not be found by it."""
    if run.capture == "query":
        raise LineageError(f"run '{run.id}' is of the saved query '{run.workflow}'", hint="save the query again")
    if run.capture == "off":
        raise LineageError(
            f"run '{run.id}' was made with capture off: it has no lineage to refresh it by",
            hint="run the workflow again with --capture auto",
        )
    pruned = next((hop for hop in hops if is_pruned(hop, "backward") or is_pruned(hop, "forward")), None)
    if pruned is not None:
        ends = [space.partition(":")[2] for space in (pruned.from_space, pruned.to_space)]
        raise LineageError(
            f"the lineage of run '{run.id}' between '{ends[0]}' and '{ends[1]}' was pruned",
            hint=f"declare it and run again: {{name: …, backward: {ends[0]}, to: {ends[1]}}} and "
            f"{{name: …, forward: {ends[1]}, to: {ends[0]}}}, or leave `workload` empty",
        )
    lazy = next((hop for hop in hops if hop.form == "lazy"), None)
    if lazy is not None:
        raise LineageError(
            f"the lineage of run '{run.id}' is only captured when asked for: it cannot be carried on by a refresh",
            hint="run the workflow again with --capture auto",
        )
