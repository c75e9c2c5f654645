"""The request of a refresh: datasets by name, and the changes stated for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from lineage_catalog.records import Commit, DatasetRecord, RunRecord

from lineage_service.errors import Problem, QuestionError, RunError, StoreError, join_names
from lineage_service.progress import Stages
from lineage_service.query.masks import refuse_masked
from lineage_service.query.open_home import OpenHome
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.refresh.change_detection import ChangeDetector
from lineage_service.refresh.checks_and_copies import failed_checks, published_outputs, write_copies
from lineage_service.refresh.refresh_commit import refresh_commit
from lineage_service.refresh.refresh_report import RefreshReport
from lineage_service.refresh.run_refresh import Refresh
from lineage_service.refresh.source_changes import Rows, SourceChange, SourceChangeBuilder
from lineage_service.settings import IndexOptions
from lineage_service.spec.models import SourceSpec
from lineage_service.store.compaction import compact_version
from lineage_service.store.layout import working_folder
from lineage_service.store.publications import announce_publications
from lineage_service.store.references import References, remove_unreferenced
from lineage_service.store.version_patcher import Ids
from lineage_service.subjects.reappeared_persons import (
    is_on_legal_hold,
    key_of_erased,
    reappearance_problem,
    rows_of_erased,
)
from lineage_service.subjects.source_indexing import scan_of
from lineage_service.subjects.subject_index import declared_subjects


@dataclass(frozen=True)
class StatedChanges:
    """Stated changes: removed rows (a predicate or rids), corrected rows and added rows. `reveal`: the predicate and
    the key may read masked columns.
    """

    removed: Selection | None = None
    changed: Rows | None = None
    added: Rows | None = None
    key: tuple[str, ...] = ()
    reveal: bool = False

    @property
    def has_changes(self) -> bool:
        return self.removed is not None or self.changed is not None or self.added is not None


def stated_changes(
    datasets: Sequence[str], removed: Any, changed: Any, added: Any, key: tuple[str, ...], *, reveal: bool = False
) -> dict[str, StatedChanges]:
    """The changes by dataset. A single value applies to the one named dataset; a mapping has one value per dataset."""
    given = {"removed": removed, "changed": changed, "added": added}
    # A dict here is one row, not a mapping of datasets.
    several = {
        what: value
        for what, value in given.items()
        if isinstance(value, Mapping) and not (datasets and "_rid" in value)
    }
    names = list(dict.fromkeys([*datasets, *(name for value in several.values() for name in value)]))
    single = [what for what, value in given.items() if value is not None and what not in several]
    if single and len(names) != 1:
        raise QuestionError(f"'{single[0]}' is of one source, and {len(names)} are named")
    found = {}
    for name in names:
        own = {what: value.get(name) if what in several else value for what, value in given.items()}
        found[name] = StatedChanges(
            _removed_selection(own["removed"], reveal), own["changed"], own["added"], key, reveal
        )
    return found


def _removed_selection(removed: Any, reveal: bool) -> Selection | None:
    if removed is None:
        return None
    rid, where = (None, removed) if isinstance(removed, str) else (removed, None)
    if rid is not None:
        rid = [rid] if isinstance(rid, int | float) else list(rid)
        if any(isinstance(each, bool) or int(each) != each for each in rid):
            raise QuestionError("'removed' takes row ids, which are whole numbers, or a predicate")
    return Selection.of(rid, None, where, False, reveal)


def refresh(
    store: OpenHome,
    asked: Mapping[str, StatedChanges],
    options: IndexOptions,
    commit: Callable[[Commit], None],
    stages: Stages,
) -> RefreshReport:
    """Updates the outputs of a workflow after changes of its sources, and commits the result as a run."""
    started, home, ask = datetime.now(UTC), store.layout, store.questions
    asked = _changed_sources(ask, asked)
    found = {name: ask.find(name) for name in asked}
    run = _run_to_refresh(ask, list(found.values()))
    with working_folder(home) as folder:
        refreshing = Refresh(home, ask, run, folder, options, stages)
        changes: dict[str, SourceChange] = {}
        detecting = ChangeDetector(ask, refreshing.patcher, refreshing.spark)
        for name, source in found.items():
            if not asked[name].has_changes:
                spec = refreshing.loaded.spec.valid_sources[source.name]
                seen = detecting.detect(source, spec)
                if seen is not None:
                    changes[source.name] = seen
                continue
            refuse_other_output(refreshing, source)
            changing = SourceChangeBuilder(ask.engine, refreshing.patcher, source.name, ask.scan(source))
            each = asked[name]
            if each.key:
                masked = ask.masks.over(source, reveal=each.reveal)
                refuse_masked(each.key, masked, source.full_name, "a key would disclose its values")
            removed = removed_rids(ask, source, each.removed)
            changes[source.name] = changing.build(removed, each.changed, each.added, each.key)
        changes, returned = _without_erased(refreshing, found.values(), changes)
        if not changes:
            folder.remove()
            return RefreshReport(run.id, run.id, run.workflow, {}, {})
        refreshing.refresh_datasets(changes)
        warnings = [*returned, *failed_checks(refreshing)]
        with announce_publications(folder, published_outputs(refreshing)) as copies, stages.stage("committing"):
            write_copies(refreshing, copies)
            made, report = refresh_commit(refreshing, changes, started, warnings)
            remove_unreferenced(References(ask.reader, home), made)
            folder.sync()
            folder.hand_over()
            commit(made)
            folder.mark_committed()
            unpublished = store.publish(folder.run_id)
    if unpublished:
        raise StoreError(unpublished)
    return report


def _without_erased(
    refreshing: Refresh, sources: Iterable[DatasetRecord], changes: Mapping[str, SourceChange]
) -> tuple[dict[str, SourceChange], list[Problem]]:
    """The changes without rows of erased persons, for sources configured to drop them, with warnings.

    Raises RunError if a source is configured to reject such rows.
    """
    ask, kept, problems = refreshing.ask, dict(changes), list[Problem]()
    for source in sources:
        spec, change = refreshing.loaded.spec.sources[source.name], changes.get(source.name)
        if change is None or not isinstance(spec, SourceSpec) or is_on_legal_hold(spec):
            continue
        parts, persons = [np.array([], np.int64)], 0
        for declared in declared_subjects(source.name, spec.subject):
            erased = ask.reader.erased_hashes(declared.kind)
            scan, key = scan_of(refreshing.folder, change.after), key_of_erased(refreshing.home, erased)
            rids, count = rows_of_erased(ask.engine.connection, key, declared, scan, change.added_rids, erased)
            parts.append(rids)
            persons = max(persons, count)
        rids = np.unique(np.concatenate(parts))
        if not len(rids):
            continue
        problems.append(reappearance_problem(source.name, spec.on_erased, persons, len(rids)))
        if spec.on_erased == "drop":
            patched = refreshing.patcher.patch_version(change.after, rids, [])
            after = compact_version(patched, refreshing.patcher, refreshing.folder.snapshot(source.name))
            added, both = np.setdiff1d(change.added_rids, rids), np.intersect1d(change.removed_rids, rids)
            kept[source.name] = replace(change, after=after, added_rids=added)
            if not len(added) and not len(change.removed_rids) and not len(both):
                del kept[source.name]
    if any(problem.severity == "error" for problem in problems):
        raise RunError(problems)
    return kept, problems


def _changed_sources(ask: Questions, changes: Mapping[str, StatedChanges]) -> dict[str, StatedChanges]:
    """The sources that the names denote. An output or a workflow stands for all sources of its run."""
    found: dict[str, StatedChanges] = {}
    for name, each in changes.items():
        latest = ask.reader.latest_run(name)
        if latest is None:
            dataset = ask.find(name)
            if dataset.role == "source":
                found[name] = each
                continue
            run_id = dataset.run_id
        else:
            run_id = latest.id
        if each.has_changes:
            raise QuestionError(f"'{name}' is no source: rows of sources change, and outputs follow")
        for source in ask.graph.datasets(run_id):
            if source.role == "source":
                found.setdefault(source.full_name, each)
    return found


def refuse_other_output(refreshing: Refresh, source: DatasetRecord) -> None:
    """Raises QuestionError for rows of another workflow's output, because they derive from that workflow's sources."""
    spec = refreshing.loaded.spec.sources[source.name]
    if isinstance(spec, SourceSpec) and spec.output is not None:
        raise QuestionError(
            f"'{source.full_name}' is the output '{spec.output}': its rows change where that is made",
            hint=f"refresh that workflow's sources, then `refresh {source.full_name}`",
        )


def _run_to_refresh(ask: Questions, datasets: Sequence[DatasetRecord]) -> RunRecord:
    """The single run that has all of these sources: the latest of its workflow."""
    if not datasets:
        raise QuestionError("name the source that has changed")
    if len({each.run_id for each in datasets}) > 1:
        raise QuestionError(f"{join_names([each.full_name for each in datasets])} are sources of several workflows")
    run = ask.reader.run(datasets[0].run_id)
    latest = ask.reader.latest_run(datasets[0].workflow)
    assert run is not None
    if latest is None or latest.id != run.id:
        raise QuestionError(
            f"run '{run.id}' is not the latest of '{run.workflow}'", hint="the latest run is the one that is refreshed"
        )
    return run


def removed_rids(ask: Questions, source: DatasetRecord, selection: Selection | None) -> Ids:
    if selection is None:
        return np.array([], np.int64)
    start = ask.start(source, selection)
    if start.rids is not None:
        return np.array(sorted(start.rids), np.int64)
    table = start.table
    if table is None:
        table = ask.engine.keep(ask.scan(source).all_rids())
    found: Ids = ask.engine.id_array(f"SELECT b FROM {table}").to_numpy(zero_copy_only=False).astype("int64")
    return found
