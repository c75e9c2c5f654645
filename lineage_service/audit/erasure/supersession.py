"""Makes the runs that replace others, without removed rows and with corrected values.

Runs are processed from the oldest to the latest: the changes of a run's datasets are passed on to the runs that read
them. Each new run is a refresh of the old one in its own folder. Nothing is committed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.erasure.copy_publishers import last_publishers
from lineage_service.audit.erasure.run_purge import RunPurge, has_excluded_rows
from lineage_service.audit.erasure.saved_query_rerun import rerun_saved_query
from lineage_service.audit.erasure.source_rewrites import RewrittenFile, version_after_rewrite
from lineage_service.audit.erasure.superseding_run import DatasetChange, RequestedChanges, SupersedingRun, VersionChange
from lineage_service.audit.erasure.untraceable_runs import (
    has_changed_sources,
    refuse_untraceable_runs,
    untraceable_reason,
)
from lineage_service.capture.handles import source_space
from lineage_service.errors import Problem, RunError
from lineage_service.progress import Stages
from lineage_service.query.questions import Questions
from lineage_service.refresh.checks_and_copies import failed_checks, published_outputs, write_copies
from lineage_service.refresh.refresh_commit import refresh_commit
from lineage_service.refresh.run_refresh import DeletedRows, Refresh
from lineage_service.refresh.source_changes import SourceChange, SourceChangeBuilder
from lineage_service.settings import IndexOptions
from lineage_service.spec.redaction_markers import is_computable
from lineage_service.store.compaction import compact_version
from lineage_service.store.layout import HomeLayout, RunFolder, working_folder
from lineage_service.store.publications import Publication, make_parents, waiting_path
from lineage_service.store.published_folder import writing_beside
from lineage_service.store.shared_rows import corrected_records, corrections_of, with_record_numbers
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import OriginalFile, Version, VersionFile, apply_source_renames

REDACTED = "a value in its workflow file was erased, so it cannot be recomputed"
CHANGED_SOURCES = "its sources have changed since the run, so it cannot be recomputed"


@dataclass
class Supersession:
    """Makes all runs that a change of sources affects. Folders are locked as long as `folders` is open."""

    home: HomeLayout
    ask: Questions
    options: IndexOptions
    stages: Stages
    wanted: RequestedChanges
    folders: ExitStack
    versions: dict[str, VersionChange] = field(default_factory=dict)
    made: list[SupersedingRun] = field(default_factory=list)
    waiting: str | None = None  # part of the names of pending published copies; None: none are made
    rewritten: Mapping[str, RewrittenFile] = field(default_factory=dict)  # source files by path
    as_they_are: dict[str, Version] = field(default_factory=dict)  # versions over files to be rewritten

    def supersede_runs(self) -> list[SupersedingRun]:
        """Makes every affected run, oldest first. Raises LineageError that lists all runs that cannot be traced, unless
        they may be removed.
        """
        runs = list(reversed(self.ask.reader.runs()))
        publishers = last_publishers(self.ask, runs)
        untraced: dict[str, str] = {}
        for number, run in enumerate(runs):
            reason = self._untraceable_reason(run, untraced)
            if reason is not None:
                untraced[run.id] = reason
                self.made.append(SupersedingRun(run, None))
                continue
            if not self._is_concerned(run):
                continue
            with self.stages.stage(f"recomputing '{run.workflow}' ({number + 1} of {len(runs)} runs examined)"):
                if run.capture == "query":
                    self.made.append(rerun_saved_query(self, run))
                else:
                    targets = {target for target, publisher in publishers.items() if publisher == run.id}
                    self.made.append(self._supersede_by_refresh(run, targets))
        if untraced and not self.wanted.drop:
            refuse_untraceable_runs({run.id: run for run in runs}, untraced)
        return self.made

    # --- which runs -------------------------------------------------------------------------------------------

    def _untraceable_reason(self, run: RunRecord, before: Mapping[str, str]) -> str | None:
        """The reason why an affected run cannot be traced; it may also read what such a run wrote."""
        read = [each.version_id for each in self.ask.graph.datasets(run.id) if each.role == "source"]
        maker = next((each.run_id for each in self.ask.reader.makers_of(read) if each.run_id in before), None)
        if maker is not None:
            return f"it reads what run '{maker}' wrote"
        return untraceable_reason(self.ask, run) if self._is_touched(run) else None

    def _is_touched(self, run: RunRecord) -> bool:
        touched = {*self.wanted.removed_rids, *self.wanted.corrected, *self.versions}
        return any(
            each.version_id in touched and (run.id, each.name) not in self.wanted.held
            for each in self.ask.graph.datasets(run.id)
        )

    def _is_concerned(self, run: RunRecord) -> bool:
        if self._is_touched(run):
            return True
        # Rows that a refresh left out remain in its files, and their persons are no longer known.
        return has_excluded_rows(self.ask.scan(each).version for each in self.ask.graph.datasets(run.id))

    # --- one run ----------------------------------------------------------------------------------------------

    def new_folder(self) -> RunFolder:
        return self.folders.enter_context(working_folder(self.home))

    def _supersede_by_refresh(self, run: RunRecord, targets: set[Path]) -> SupersedingRun:
        started, folder = datetime.now(UTC), self.new_folder()
        refresh = Refresh(self.home, self.ask, run, folder, self.options, self.stages, in_place=True)
        sources = [each for each in refresh.records if each.role == "source"]
        changes = {each.name: change for each in sources if (change := self._change(refresh, each)) is not None}
        deleted = self._rows_to_delete(refresh, changes)
        refresh.refresh_datasets(changes, deleted=deleted)
        warnings = _check_warnings(refresh) if changes else []
        copies = self._copies(refresh, targets)
        changed = {each.space for each in sources if each.name in changes}
        states = {state.space: state for state in refresh.states.values()}
        changed |= {space for space, state in states.items() if state.is_changed}
        for space, scan in refresh.scans.items():
            if space not in changed and space in refresh.versions:
                # Recomputed rows are unchanged: their readers keep the same version.
                refresh.versions[space] = replace(refresh.versions[space], id=scan.version.id)
        purging = RunPurge(self.ask.engine, folder, refresh.versions, frozenset(changed))
        refresh.hops = purging.purge_hops(refresh.hops)
        refresh.versions = {space: purging.purge_version(space) for space in refresh.versions}
        changes_made = []
        for record in refresh.records:
            if record.role == "failing":
                continue
            version, before = refresh.versions[record.space], refresh.scans[record.space].version
            if record.role == "source":
                change = changes.get(record.name)
                if change is not None:
                    changes_made.append(
                        DatasetChange(
                            record, "source", change.counts, version.rows, None, change.removed_rids, change.added_rids
                        )
                    )
                continue
            report = refresh.reports[record.space.name]
            state = next(each for space, each in states.items() if space == record.space)
            counts = {"removed": report.removed, "changed": report.changed, "added": report.added}
            policy = deleted.get(record.space.name)
            kept = 0 if policy is None else policy.kept
            why_all = report.reason if report.way == "all" else None
            reason = policy.reason if policy is not None and (kept or len(policy.rids)) else None
            changes_made.append(
                DatasetChange(
                    record,
                    report.way,
                    counts,
                    version.rows,
                    reason,
                    state.removed_rids,
                    state.added_rids,
                    kept,
                    why_all,
                )
            )
            if record.space in changed:
                self.versions[record.version_id] = VersionChange(before, version, state.removed_rids, state.added_rids)
        # Until here, rows were read from the current files; the new run refers to the rewritten ones.
        self.as_they_are |= {version.id: version for version in refresh.versions.values()}
        refresh.versions = {
            space: version_after_rewrite(version, self.rewritten, refresh.patcher) if space.is_source else version
            for space, version in refresh.versions.items()
        }
        commit, _ = refresh_commit(refresh, changes, started, warnings)
        return SupersedingRun(run, commit, folder, tuple(changes_made), tuple(copies), tuple(warnings))

    def _copies(self, refresh: Refresh, targets: set[Path]) -> list[Publication]:
        """New copies of published outputs, pending under the name of the plan."""
        found = published_outputs(refresh, targets)
        if self.waiting is None:
            return []
        copies = [
            Publication(output, step, target, waiting_path(target, self.waiting))
            for output, (step, target) in found.items()
        ]
        for each in copies:
            make_parents(each)
            self.folders.enter_context(
                writing_beside(each.target)
            )  # until the catalog records them or they are removed
        write_copies(refresh, copies)
        return copies

    def _change(self, refresh: Refresh, record: DatasetRecord) -> SourceChange | None:
        """The change of a run's source: its own rows, or those of the output that it reads."""
        if (record.run_id, record.name) in self.wanted.held:
            return None
        before = refresh.scans[record.space].version
        known = self.versions.get(record.version_id)
        if known is None:
            removed_rids, corrected = (
                each.get(record.version_id) for each in (self.wanted.removed_rids, self.wanted.corrected)
            )
            if removed_rids is None and corrected is None:
                return None
            scan = refresh.scans[record.space]
            changing = SourceChangeBuilder(self.ask.engine, refresh.patcher, record.name, scan, correction="--set")
            removed = np.array([], np.int64) if removed_rids is None else removed_rids
            found = changing.build(removed, corrected, None, ())
            after = compact_version(found.after, refresh.patcher, refresh.folder.snapshot(record.name))
            if corrected is not None:
                mark = self.waiting or ""
                more = corrections_of(before, found.added_rids, mark, self.ask.home.absolute)
                after = replace(after, corrections=(*after.corrections, *more))
            # The earlier original files are not mentioned, because one may be named after a person.
            after = replace(
                after, files=_files_with_rows(after), origins=_origins_with_rows(before, after, self.ask), copies=()
            )
            if after.origins:
                went = np.setdiff1d(found.removed_rids, found.added_rids)
                after = with_record_numbers(refresh.patcher, before, after, went)
            known = VersionChange(before, after, found.removed_rids, found.added_rids)
            self.versions[record.version_id] = known
        return SourceChange(
            record.name,
            before,
            apply_source_renames(known.after, record),
            known.removed_rids,
            known.added_rids,
            found=True,
        )

    def _rows_to_delete(self, refresh: Refresh, changes: Mapping[str, SourceChange]) -> dict[str, DeletedRows]:
        """Rows of each step that are deleted instead of recomputed, by policy of its outputs or because they cannot be
        recomputed.
        """
        from lineage_service.audit.erasure.erasure_policies import rows_to_delete_by_step

        rows = {source_space(name): change.removed_rids for name, change in changes.items()}
        everywhere = None
        if has_changed_sources(self.ask, refresh.run):
            everywhere = CHANGED_SOURCES
        elif not is_computable(self.ask.reader.content(refresh.run.id) or "{}"):
            everywhere = REDACTED
        return rows_to_delete_by_step(self.ask, refresh, rows, everywhere)


def _files_with_rows(version: Version) -> tuple[VersionFile, ...]:
    """The files that still have live rows, original or corrected. Others are dropped, because a folder may be named
    after a person. One file is kept for its columns.
    """
    return (
        tuple(
            file
            for file in version.files
            if file.left_out < file.rows or not file.rows or len(corrected_records(version, file))
        )
        or version.files[:1]
    )


def _origins_with_rows(before: Version, after: Version, ask: Questions) -> tuple[OriginalFile, ...]:
    """The original files of a copy that still have rows in it. Others are dropped, because one may be named after a
    person.
    """
    if not any(origin.rows for origin in before.origins) or before.end != sum(each.rows for each in before.origins):
        return after.origins
    paths = tuple(ask.home.absolute(file.path) for file in after.files)
    rids = ask.engine.id_array(VersionScan(after, paths, ask.home.absolute).all_rids()).to_numpy(zero_copy_only=False)
    return tuple(
        each
        for each in after.origins
        if not each.rows or bool(((rids >= each.base) & (rids < each.base + each.rows)).any())
    )


def _check_warnings(refresh: Refresh) -> list[Problem]:
    """The checks that rows fail now. They are reported, but do not stop an erasure."""
    try:
        return failed_checks(refresh)
    except RunError as error:
        return [replace(problem, severity="warning", hint=None) for problem in error.problems]
