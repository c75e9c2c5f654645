"""One run of a workflow, as the table of contents of the project: load, build, open, instrument, rehearse, write,
check, commit; then index, and commit the lineage. Nothing is visible before the first commit; whatever fails before it
leaves nothing behind. Where the commit itself fails, nobody can be sure that it did: the files stay, and `gc` removes
them if no catalog has the run. Whatever happens after the commit costs lineage at most, never the outputs.

A run whose rows fail an `error` check is kept under its id, so that those rows can be explained, and is not committed:
no name without that id ever means it, nothing is published, and `gc` removes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.records import Lineage, SubjectRecord

from lineage_service.capture.handles import Space, Table, source_space, step_space
from lineage_service.capture.instrument import InstrumentedPlan
from lineage_service.capture.strategies import check_capture
from lineage_service.errors import CaptureSuspect, ChecksFailed, LineageInterrupted, Problem, StoreError
from lineage_service.progress import Stages, Tell
from lineage_service.runs.failed_checks import failed_checks
from lineage_service.runs.lineage_indexing import LineageBuild, build_lineage
from lineage_service.runs.run_report import RunReport, indexed_report, run_commit, run_report, with_warnings
from lineage_service.runs.validation import checked_workflow
from lineage_service.runs.workflow_execution import (
    Execution,
    RunOptions,
    execute_workflow,
    recover_spark,
    reread_execution,
    session_conf,
)
from lineage_service.settings import command
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource
from lineage_service.store.home_key import home_key
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import RunFolder, working_folder
from lineage_service.store.lineage_tables import LineageTables, TableRows
from lineage_service.store.publications import (
    Publication,
    announce_publications,
    mark_complete,
    prepare_publications,
    withdraw,
)
from lineage_service.store.session_settings import save_settings
from lineage_service.store.versions import Version
from lineage_service.subjects.source_indexing import index_sources
from lineage_service.subjects.subject_index import DeclaredSubject, declared_subjects

if TYPE_CHECKING:
    from lineage_service.spark.staging import RunWriter


def run_workflow(file: str | Path, options: RunOptions, store: HomeStore, tell: Tell) -> RunReport:
    """Runs a workflow and commits it, unless persons are erased meanwhile."""
    started, home = datetime.now(UTC), store.layout
    erasures = store.reader.erasures()
    capture = options.capture
    loaded, _, warnings = checked_workflow(file, options.vars, store.version_of, capture=capture)
    capture = capture or loaded.spec.lineage.capture
    check_capture(capture)
    targets = prepare_publications(loaded, home)
    if loaded.kept is not None or _subject_declarations(loaded):
        home_key(home)  # where it is lost, this is told before anything is done
    stages, clock = Stages(tell), _Clock()
    with working_folder(home) as folder, announce_publications(folder, targets) as publications:
        done, lost = _execute_with_fallback(loaded, options, capture, folder, store, publications, stages, clock)
        tables = _save_lineage_tables(done, folder)
        problems = failed_checks(done.failed, done.plan.plan, folder, traced=capture != "off")
        status = "failed" if any(problem.severity == "error" for problem in problems) else "committed"
        report = run_report(status, loaded, done, clock.seconds, folder)
        if capture == "off" or lost is not None:  # else they are noted with the lineage, after the commit
            done = replace(done, subjects=_subject_records(loaded, done, folder, store))
        unpublished: list[Problem] = []
        with stages.stage("committing"):
            if status == "committed":
                mark_complete(folder, loaded.spec.name, publications)
            else:
                withdraw(folder)
            folder.sync()
            folder.hand_over()
            store.commit(run_commit(started, loaded, done, report, folder, capture, lost), erasures)
            if status == "committed":
                folder.mark_committed()
                unpublished = store.publish(folder.run_id)
        clock.lap("execute")
        told = [*warnings, *done.warnings, *problems]
        if lost is not None:
            told.append(_lineage_warning(lost, folder, again=done.plan.capture != "off"))
        elif capture != "off":
            report, lacking = _with_lineage(report, loaded, done, tables, folder, options, store, stages, clock)
            told += lacking
        if status == "failed":
            raise ChecksFailed(told, report)
        if unpublished:
            raise StoreError(unpublished)
    return with_warnings(report, told)


def _execute_with_fallback(
    loaded: LoadedWorkflow,
    options: RunOptions,
    capture: str,
    folder: RunFolder,
    store: HomeStore,
    publications: Sequence[Publication],
    stages: Stages,
    clock: _Clock,
) -> tuple[Execution, str | None]:
    """What Spark did, and why lineage could not be captured on the way, where it could not.

    Capture must not cost the user the outputs: where a job fails and what capture adds to it may be the reason, the
    workflow is run with all lineage left for later, and else without any.
    """
    reason: str | None = None
    for wanted in (capture, capture, "off"):
        try:
            done = execute_workflow(
                loaded, options, wanted, folder, store, publications, stages, clock.restart, failed_before=reason
            )
        except CaptureSuspect as error:
            if wanted == "off":
                raise
            reason = reason or f"capture by {capture} failed{_NEEDS.get(capture, '')}: {error.problems[0].message}"
            folder.clear()
            recover_spark()
            continue
        # What could not ride along by our own choice is read again in the same command.
        return done, None if capture == "auto" and wanted != "off" else reason
    raise AssertionError("the last try either succeeds or raises")


# What a strategy rests on, and perhaps did not get.
_NEEDS = {"inject": " (the list of a group's rows must fit into memory, and into one Spark row of 2 GiB)"}


def _lineage_warning(reason: str, folder: RunFolder, *, again: bool) -> Problem:
    index = command(folder.home.path, "index", folder.run_id, catalog=folder.home.catalog)
    hint = f"capture it another way: {index}" if again else "run the workflow again, with --capture auto"
    told = f"the outputs of run '{folder.run_id}' are committed, but its lineage is incomplete: {reason}"
    return Problem(told, None, hint, "warning")


def _with_lineage(
    report: RunReport,
    loaded: LoadedWorkflow,
    done: Execution,
    tables: LineageTables,
    folder: RunFolder,
    options: RunOptions,
    store: HomeStore,
    stages: Stages,
    clock: _Clock,
) -> tuple[RunReport, list[Problem]]:
    """The report with the lineage that was indexed; and what was lost of it, and how to get it after all."""
    settling = LineageBuild(
        folder, tables, _versions(done), lambda: reread_execution(done, folder), options.index_engine,
        _subject_declarations(loaded), store.reader.subjects,
    )  # fmt: skip
    again = command(folder.home.path, "index", folder.run_id, catalog=folder.home.catalog)
    try:
        error = build_lineage(settling, stages)
    except KeyboardInterrupt:
        done.writing.cancel()
        raise LineageInterrupted(
            f"interrupted; run '{folder.run_id}' and its outputs are committed, its lineage is not finished yet",
            hint=f"finish it: {again}",
        ) from None
    clock.seconds |= settling.seconds
    if error is not None:
        reason = error.problems[0].message
        store.commit_lineage(Lineage(folder.run_id, "incomplete", reason))
        return report, [_lineage_warning(reason, folder, again=True)]
    report = indexed_report(report, done.plan.plan.outputs, settling.hops, settling.pairs)
    folder.sync()
    store.commit_lineage(settling.lineage(report.to_json()))
    settling.clear()
    missing = [each for each in settling.prepared if "missing" in each.body]
    return report, [
        Problem(f"nothing is prepared for '{each.question.name}': {each.body['missing']}", None, None, "warning")
        for each in missing
    ]


def _versions(done: Execution) -> dict[str, Version]:
    return {
        **{step_space(step): version for step, version in done.writing.versions.items()},
        **{source_space(name): source.version for name, source in done.sources.items()},
    }


def _subject_declarations(loaded: LoadedWorkflow) -> list[DeclaredSubject]:
    """Whose the rows of the sources are, as the file says."""
    specs = {name: spec for name, spec in loaded.spec.sources.items() if not isinstance(spec, BrokenSource)}
    return [each for name, spec in specs.items() for each in declared_subjects(name, spec.subject)]


def _subject_records(
    loaded: LoadedWorkflow, done: Execution, folder: RunFolder, store: HomeStore
) -> tuple[SubjectRecord, ...]:
    def known_subjects(version_id: str) -> list[SubjectRecord]:
        return [*store.reader.subjects(version_id), *(each for each in done.subjects if each.version_id == version_id)]

    return (*done.subjects, *index_sources(folder, _subject_declarations(loaded), _versions(done), known_subjects))


class _Clock:
    """Seconds per phase; what Spark needed to start is nobody's."""

    def __init__(self) -> None:
        self.seconds = {"execute": 0.0, "capture": 0.0, "index": 0.0}
        self._since = time.monotonic()

    def restart(self) -> None:
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now


def _save_lineage_tables(done: Execution, folder: RunFolder) -> LineageTables:
    """The run's lineage tables, noted in its folder for whoever makes the index."""
    plan, writing, names = done.plan, done.writing, done.names
    tables = (*plan.tables(), *_failing_tables(plan, writing))
    rows: dict[Space, TableRows] = dict(writing.tables)
    for table in tables:
        if table.space.startswith("step:"):
            version = writing.versions[table.space.removeprefix("step:")]
            handles = tuple(names.handles(len(table.handles)))
            rows[table.space] = TableRows("files", tuple(file.path for file in version.files), None, handles)
    workload = plan.workload
    settings = session_conf(done)
    save_settings(folder, settings)
    conf = settings if _has_deferred_tables(rows) or workload.prepared_questions else {}
    noted = LineageTables(names.prefix, writing.salt, tables, rows, conf, workload)
    if plan.capture != "off":
        noted.save(folder)
    return noted


def _has_deferred_tables(rows: Mapping[Space, TableRows]) -> bool:
    """Whether anything is left that Spark may have to read again."""
    return any(each.kind != "files" for each in rows.values())


def _failing_tables(plan: InstrumentedPlan, writing: RunWriter) -> list[Table]:
    """Rows that fail checks carry the handles of the rows they are."""
    handles = {each.node.id: each.handles for each in plan.nodes}
    return [
        Table(step_space(name), handles[failing.step]) for name, failing in writing.failed.items() if failing.handles
    ]
