"""One refresh from start to commit: finds the source changes, recomputes the affected rows of each dataset bottom-up,
writes their lineage beside that of the previous run, and commits once. A failure before the commit leaves nothing
behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from lineage_catalog.records import HopRecord, RunRecord

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.spark_settings import means_the_same
from lineage_service.errors import QuestionError, SourceError
from lineage_service.plan.identity_columns import identity_columns
from lineage_service.plan.nodes import Node
from lineage_service.progress import Stages
from lineage_service.query.changed_files import refuse_changed
from lineage_service.query.lineage_graph import Place
from lineage_service.query.lineage_walk import walk
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.refresh.duckdb_refresh import DatasetState, DuckDbRefresh
from lineage_service.refresh.fresh_lineage import FreshLineage, copy_hops, hops_to_nearest_datasets
from lineage_service.refresh.refresh_refusals import refuse_redacted, refuse_unanswerable
from lineage_service.refresh.refresh_report import DatasetReport
from lineage_service.refresh.row_replacement import RowReplacement, match_rows
from lineage_service.refresh.source_changes import SourceChange
from lineage_service.refresh.spark_refresh import SparkRefresh
from lineage_service.refresh.unchanged_rows import RecomputedDataset, is_determined, keep_unchanged, rows_behind
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.settings import IndexOptions
from lineage_service.store.duckdb_engine import column, file_literal
from lineage_service.store.layout import HomeLayout, RunFolder
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.spark.recomputation import RecomputedRows, TouchedRowFiles


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a dataset that are deleted instead of recomputed, and the reason; empty if there is nothing to compute
    them from.

    `kept`: the number of rows that stay unchanged although rows behind them were removed.
    """

    rids: Ids
    reason: str | None
    kept: int = 0


@dataclass
class Refresh:
    """A refresh in progress, in the folder of the new run."""

    home: HomeLayout
    ask: Questions
    run: RunRecord
    folder: RunFolder
    options: IndexOptions
    stages: Stages
    versions: dict[Space, Version] = field(default_factory=dict)  # by space: the current versions
    hops: list[HopRecord] = field(default_factory=list)
    reports: dict[str, DatasetReport] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    states: dict[str, DatasetState] = field(default_factory=dict)
    by_spark: list[str] = field(default_factory=list)  # steps that DuckDB could not compute identically
    in_place: bool = False  # the new run replaces the old one: unchanged datasets keep their versions
    _is_left: bool = False
    _has_lineage: bool = True

    def __post_init__(self) -> None:
        before = CommittedRun(self.home, self.ask.reader, self.run)
        self.records, self.loaded, self.plan, self.settings = (
            before.datasets, before.workflow, before.plan, before.settings
        )  # fmt: skip
        self.scans: dict[Space, VersionScan] = {each.space: self.ask.scan(each) for each in self.records}
        self.patcher = Patcher(self.folder)
        self.spark = SparkRefresh(
            self.plan, self.loaded, self.folder, self.states, self.options, self.stages, self.settings, self._old_rows
        )

    # --- refreshing -------------------------------------------------------------------------------------------

    def refresh_datasets(
        self,
        changes: Mapping[str, SourceChange],
        only: Collection[str] | None = None,
        *,
        lineage: bool = True,
        deleted: Mapping[str, DeletedRows] | None = None,
    ) -> None:
        """Refreshes every dataset of the run, or `only` these steps and the steps that they read.

        Without `lineage`, only rows are computed. In steps of `deleted`, rows are deleted instead of recomputed.
        """
        began = time.monotonic()
        before = self.ask.graph.hops(self.run.id)
        deleted = deleted or {}
        if not all(step in deleted for step in self._dataset_steps(only)):
            refuse_unanswerable(self.run, before)
            refuse_redacted(self.run, self.ask.reader.content(self.run.id))
            self._refuse_changed(changes)
        self.versions = {space: scan.version for space, scan in self.scans.items()}
        self.versions |= {source_space(name): each.after for name, each in changes.items()}
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
            removed, added = (none, none) if rows is None else (rows.removed_rids, rows.added_rids)
            if step in deleted:
                removed = self._delete(space, deleted[step])
            self.states[node.id] = DatasetState(
                space, self.scans[space], self._scan(self.versions[space]), removed, added
            )
        self.seconds["refresh"] = round(time.monotonic() - began, 3)

    def _refuse_changed(self, changes: Mapping[str, SourceChange]) -> None:
        """Raises SourceError if a file changed since the run and the change is neither stated nor detected. Otherwise
        old and new rows would be mixed.
        """
        for record in self.records:
            change = changes.get(record.name)
            if record.role == "source" and (change is None or not change.found):
                scan = self.scans[record.space]
                refuse_changed(record, scan, range(len(scan.paths)))

    def _source_state(self, node: Node, change: SourceChange | None) -> DatasetState:
        scan, none = self.scans[source_space(node.step)], np.array([], np.int64)
        space = source_space(node.step)
        if change is None:
            return DatasetState(space, scan, scan, none, none)
        return DatasetState(
            space, scan, self._scan(change.after), change.removed_rids, change.added_rids, change.readable
        )

    def _scan(self, version: Version) -> VersionScan:
        paths = tuple(self.home.absolute(file.path) for file in version.files)
        return VersionScan(version, paths, self.home.absolute)

    def _refresh_by_duckdb(
        self, near: DuckDbRefresh, node: Node, number: int, before: Sequence[HopRecord]
    ) -> RowReplacement | None:
        """Refreshes a dataset in DuckDB; leaves it unchanged if only Spark can compute it."""
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
        added = {state.space: state.added_rids for state in self.states.values() if len(state.added_rids)}
        rows = self._without_unchanged(
            node, rows, self._scan(found.version), lambda places: fresh.behind(places, added, path)
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
        self.reports[space.name] = DatasetReport(way, now.rows, **rows.counts, reason=reason, computed=len(rows.rids))

    def _rids_from_seeds(self, space: Space, seeds: Mapping[Space, Ids]) -> str:
        """A query of the old rids that derive from these rows of datasets below."""
        parts = ["SELECT NULL::BIGINT AS b WHERE false"]
        for seed, rids in seeds.items():
            if len(rids):
                parts.append(self._rids_ahead(space, seed, self.ask.engine.keep_ids(pa.array(rids, pa.int64()))))
        return f"SELECT DISTINCT b FROM ({' UNION ALL '.join(parts)})"

    def _old_rows(self, step: str, seed: Space) -> tuple[Version, Ids]:
        """The old version of a dataset, and the rids of its rows that derive from removed rows of a dataset below."""
        removed = next(state.removed_rids for state in self.states.values() if state.space == seed)
        space = step_space(step)
        return self.scans[space].version, _id_array(
            self.ask.engine.id_array(self._rids_from_seeds(space, {seed: removed}))
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
        """Drops recomputed rows with no change behind them, so that they stay as they were. If the run replaces the
        previous one, as in an erasure, everything that was computed is written.
        """
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
        """The steps that are datasets, in dependency order."""
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
        """Deletes rows from a dataset that is otherwise unchanged, and returns the rows deleted."""
        then = self.versions[space]
        rids = np.intersect1d(deleted.rids, _id_array(self.ask.engine.id_array(self._scan(then).all_rids())))
        if len(rids):
            self.versions[space] = now = self.patcher.patch_version(then, rids, [])
            mask = self.patcher.write_mask(rids)
            self.hops = [each for hop in self.hops for each in copy_hops([hop], self.folder.run_id, space, mask)]
            report = DatasetReport("deleted", now.rows, removed=len(rids), reason=deleted.reason)
            self.reports[space.name] = report
        return rids

    def _carry_over(self, space: Space, before: Sequence[HopRecord]) -> None:
        version = self.versions[space]
        if not self.in_place:
            # A new version: readers of the old version keep following it to the previous run.
            self.versions[space] = self.patcher.patch_version(version, np.array([], np.int64), [])
        self.hops += copy_hops(hops_to_nearest_datasets(before, space), self.folder.run_id, space, None)
        self.reports[space.name] = DatasetReport("untouched", version.rows)

    def _match_recomputed(self, space: Space, rows: RecomputedRows) -> RowReplacement:
        step = space.name
        paths = tuple(self.home.absolute(file.path) for file in rows.version.files)
        before = VersionScan(self.versions[space], self.scans[space].paths, self.home.absolute)
        after = VersionScan(rows.version, paths, self.home.absolute)
        touched = None if rows.meant is None else self._touched_rids(space, rows.meant)
        return match_rows(self.ask.engine, before, after, touched, identity_columns(self.plan.steps[step]))

    def _touched_rids(self, space: Space, meant: Sequence[TouchedRowFiles]) -> str:
        """A query of the old rids of these rows."""
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


def _id_array(ids: pa.Array) -> Ids:
    found: Ids = ids.to_numpy(zero_copy_only=False).astype("int64")
    return found
