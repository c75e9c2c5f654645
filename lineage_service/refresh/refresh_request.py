"""What a user asks a refresh for: datasets by name, and what has changed in them."""

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
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.refresh.change_detection import ChangeDetector
from lineage_service.refresh.checks_and_copies import failed_checks, published_outputs, write_copies
from lineage_service.refresh.refresh_report import RefreshReport
from lineage_service.refresh.run_refresh import Refresh
from lineage_service.refresh.source_changes import Rows, SourceChange, SourceChangeBuilder
from lineage_service.settings import IndexOptions
from lineage_service.spec.models import BrokenSource, SourceSpec
from lineage_service.store.compaction import compact_version
from lineage_service.store.layout import HomeLayout, working_folder
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
    """What is said to have changed: rows removed, by a predicate or by rids; rows corrected; rows added. `reveal`: the
    predicate and the key may be over masked columns."""

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
    """What is said of each dataset: a value is of the one that is named, a mapping has one for each."""
    given = {"removed": removed, "changed": changed, "added": added}
    # One row as a dict is no mapping of datasets.
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
    home: HomeLayout,
    ask: Questions,
    asked: Mapping[str, StatedChanges],
    options: IndexOptions,
    commit: Callable[[Commit], None],
    publish: Callable[[str], list[Problem]],
    stages: Stages,
) -> RefreshReport:
    """Brings the outputs of a workflow up to date with what has changed in its sources, by their names, and commits
    that as a run."""
    started = datetime.now(UTC)
    asked = _changed_sources(ask, asked)
    found = {name: ask.find(name) for name in asked}
    run = _run_to_refresh(ask, list(found.values()))
    with working_folder(home) as folder:
        refreshing = Refresh(home, ask, run, folder, options, stages)
        changes: dict[str, SourceChange] = {}
        detecting = ChangeDetector(ask, refreshing.patcher, refreshing.spark)
        for name, source in found.items():
            if not asked[name].has_changes:
                spec = refreshing.loaded.spec.sources[source.name]
                assert isinstance(spec, SourceSpec) and not isinstance(spec, BrokenSource)
                seen = detecting.detect(source, spec)
                if seen is not None:
                    changes[source.name] = seen
                continue
            refuse_other_output(refreshing, source)
            changing = SourceChangeBuilder(ask.engine, refreshing.patcher, source.name, ask.scan(source))
            each = asked[name]
            if each.key:
                masked = ask.masks.over(source, reveal=each.reveal)
                refuse_masked(each.key, masked, source.full_name, "a key would tell its values")
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
            made, report = refreshing.commit(changes, started, warnings)
            remove_unreferenced(References(ask.reader, home), made)
            folder.sync()
            folder.hand_over()
            commit(made)
            folder.mark_committed()
            unpublished = publish(folder.run_id)
    if unpublished:
        raise StoreError(unpublished)
    return report


def _without_erased(
    refreshing: Refresh, sources: Iterable[DatasetRecord], changes: Mapping[str, SourceChange]
) -> tuple[dict[str, SourceChange], list[Problem]]:
    """The changes without rows of erased persons that sources are to drop, and warnings. RunError where a source says
    that such a person must not be in the data again."""
    ask, kept, told = refreshing.ask, dict(changes), list[Problem]()
    for source in sources:
        spec, change = refreshing.loaded.spec.sources[source.name], changes.get(source.name)
        if change is None or not isinstance(spec, SourceSpec) or is_on_legal_hold(spec):
            continue
        parts, persons = [np.array([], np.int64)], 0
        for declared in declared_subjects(source.name, spec.subject):
            erased = ask.reader.erased_hashes(declared.kind)
            scan, key = scan_of(refreshing.folder, change.after), key_of_erased(refreshing.home, erased)
            rids, count = rows_of_erased(ask.engine.connection, key, declared, scan, change.came, erased)
            parts.append(rids)
            persons = max(persons, count)
        rids = np.unique(np.concatenate(parts))
        if not len(rids):
            continue
        told.append(reappearance_problem(source.name, spec.on_erased, persons, len(rids)))
        if spec.on_erased == "drop":
            patched = refreshing.patcher.patch_version(change.after, rids, [])
            after = compact_version(patched, refreshing.patcher, refreshing.folder.snapshot(source.name))
            came, both = np.setdiff1d(change.came, rids), np.intersect1d(change.gone, rids)
            kept[source.name] = replace(change, after=after, came=came)
            if not len(came) and not len(change.gone) and not len(both):
                del kept[source.name]
    if any(problem.severity == "error" for problem in told):
        raise RunError(told)
    return kept, told


def _changed_sources(ask: Questions, asked: Mapping[str, StatedChanges]) -> dict[str, StatedChanges]:
    """The sources that are meant: an output stands for all sources of its run, as a workflow does."""
    found: dict[str, StatedChanges] = {}
    for name, each in asked.items():
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
    """QuestionError for rows of another workflow's output: they follow from its own sources."""
    spec = refreshing.loaded.spec.sources[source.name]
    if isinstance(spec, SourceSpec) and spec.output is not None:
        raise QuestionError(
            f"'{source.full_name}' is the output '{spec.output}': its rows change where that is made",
            hint=f"refresh that workflow's sources, then `refresh {source.full_name}`",
        )


def _run_to_refresh(ask: Questions, found: Sequence[DatasetRecord]) -> RunRecord:
    """The one run that all of these are sources of: the latest of its workflow."""
    if not found:
        raise QuestionError("name the source that has changed")
    if len({each.run_id for each in found}) > 1:
        raise QuestionError(f"{join_names([each.full_name for each in found])} are sources of several workflows")
    run = ask.reader.run(found[0].run_id)
    latest = ask.reader.latest_run(found[0].workflow)
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
