"""Runs a workflow: load, build, open, instrument, rehearse, write, check, commit; then index, and commit the lineage.

Nothing is visible before the first commit, and a failure before it leaves nothing behind. If the commit itself fails,
its outcome is unknown: the files stay, and `gc` removes them if no catalog has the run. A failure after the commit can
only lose lineage, never outputs.

A run whose rows fail an `error` check is kept under its id, so that those rows can be explained, but is not committed.
No name without that id refers to it, nothing is published, and `gc` removes it.
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
from lineage_service.errors import CaptureSuspect, ChecksFailed, LineageInterrupted, NotFound, Problem, StoreError
from lineage_service.progress import Stages, Tell
from lineage_service.runs.failed_checks import failed_checks
from lineage_service.runs.lineage_indexing import LineageBuild, build_lineage
from lineage_service.runs.run_report import RunReport, indexed_report, run_commit, run_report, with_warnings
from lineage_service.runs.validation import checked_workflow
from lineage_service.runs.workflow_execution import (
    Execution,
    execute_workflow,
    recover_spark,
    reread_execution,
    session_conf,
)
from lineage_service.settings import RunOptions, command
from lineage_service.spec.loader import LoadedWorkflow
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
    """Runs a workflow and commits it, unless persons are erased in the meantime."""
    if not Path(file).exists():  # a misspelled file name must not create a home
        raise NotFound(f"workflow file '{file}' does not exist")
    store.prepare()
    store.finish_publications()
    started, home = datetime.now(UTC), store.layout
    erasures = store.reader.erasures()
    capture = options.capture
    loaded, _, warnings = checked_workflow(
        file, options.vars, store.version_of, sources=options.sources, capture=capture
    )
    capture = capture or loaded.spec.lineage.capture
    check_capture(capture)
    targets = prepare_publications(loaded, home)
    if loaded.kept is not None or _subject_declarations(loaded):
        home_key(home)  # a lost key is reported before anything is done
    stages, clock = Stages(tell), _Clock()
    with working_folder(home) as folder, announce_publications(folder, targets) as publications:
        with loaded.hidden.in_errors():
            done, lost = _execute_with_fallback(loaded, options, capture, folder, store, publications, stages, clock)
        tables = save_lineage_tables(done, folder)
        problems = failed_checks(done.failed, done.plan.plan, folder, traced=capture != "off")
        status = "failed" if any(problem.severity == "error" for problem in problems) else "committed"
        report = run_report(status, loaded, done, clock.seconds, folder)
        if capture == "off" or lost is not None:  # otherwise they are recorded with the lineage, after the commit
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
        warnings_shown = [*warnings, *loaded.hidden.in_problems([*done.warnings, *problems])]
        if lost is not None:
            warnings_shown.append(_lineage_warning(lost, folder, again=done.plan.capture != "off"))
        elif capture != "off":
            report, lacking = _with_lineage(report, loaded, done, tables, folder, options, store, stages, clock)
            warnings_shown += lacking
        if status == "failed":
            raise ChecksFailed(warnings_shown, report)
        if unpublished:
            raise StoreError(unpublished)
    return with_warnings(report, warnings_shown)


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
    """The execution, and the reason why lineage could not be captured during the run, if it could not.

    Capture must not make the outputs fail. If a job fails and capture may be the reason, the workflow is run again with
    all lineage deferred, and if that fails, without lineage.
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
        # Lineage that was deferred by our own choice is captured later in the same command.
        return done, None if capture == "auto" and wanted != "off" else reason
    raise AssertionError("the last try either succeeds or raises")


# What a strategy needs and may not have had.
_NEEDS = {"inject": " (the list of a group's rows must fit into memory, and into one Spark row of 2 GiB)"}


def _lineage_warning(reason: str, folder: RunFolder, *, again: bool) -> Problem:
    index = command(folder.home.path, "index", folder.run_id, catalog=folder.home.catalog)
    hint = f"capture it another way: {index}" if again else "run the workflow again, with --capture auto"
    message = f"the outputs of run '{folder.run_id}' are committed, but its lineage is incomplete: {reason}"
    return Problem(message, None, hint, "warning")


def _with_lineage(
    report: RunReport,
    loaded: LoadedWorkflow,
    execution: Execution,
    tables: LineageTables,
    folder: RunFolder,
    options: RunOptions,
    store: HomeStore,
    stages: Stages,
    clock: _Clock,
) -> tuple[RunReport, list[Problem]]:
    """The report with the indexed lineage, or with a warning about missing lineage and how to recover it."""
    build = LineageBuild(
        folder, tables, _versions(execution), lambda: reread_execution(execution, folder), options.index_engine,
        _subject_declarations(loaded), store.reader.subjects,
    )  # fmt: skip
    again = command(folder.home.path, "index", folder.run_id, catalog=folder.home.catalog)
    try:
        error = build_lineage(build, stages)
    except KeyboardInterrupt:
        execution.writing.cancel()
        raise LineageInterrupted(
            f"interrupted; run '{folder.run_id}' and its outputs are committed, its lineage is not finished yet",
            hint=f"finish it: {again}",
        ) from None
    clock.seconds |= build.seconds
    if error is not None:
        reason = error.problems[0].message
        store.commit_lineage(Lineage(folder.run_id, "incomplete", reason))
        return report, [_lineage_warning(reason, folder, again=True)]
    report = indexed_report(report, execution.plan.plan.outputs, build.hops, build.pairs)
    folder.sync()
    store.commit_lineage(build.lineage(report.to_json()))
    build.clear()
    missing = [each for each in build.prepared if "missing" in each.body]
    return report, [
        Problem(f"nothing is prepared for '{each.question.name}': {each.body['missing']}", None, None, "warning")
        for each in missing
    ]


def _versions(execution: Execution) -> dict[Space, Version]:
    return {
        **{step_space(step): version for step, version in execution.writing.versions.items()},
        **{source_space(name): source.version for name, source in execution.sources.items()},
    }


def _subject_declarations(loaded: LoadedWorkflow) -> list[DeclaredSubject]:
    """The persons of the sources' rows, as declared in the file."""
    return [each for name, spec in loaded.spec.valid_sources.items() for each in declared_subjects(name, spec.subject)]


def _subject_records(
    loaded: LoadedWorkflow, execution: Execution, folder: RunFolder, store: HomeStore
) -> tuple[SubjectRecord, ...]:
    def known_subjects(version_id: str) -> list[SubjectRecord]:
        return [
            *store.reader.subjects(version_id),
            *(each for each in execution.subjects if each.version_id == version_id),
        ]

    return (
        *execution.subjects,
        *index_sources(folder, _subject_declarations(loaded), _versions(execution), known_subjects),
    )


class _Clock:
    """Seconds per phase. `restart` excludes the time that Spark needed to start."""

    def __init__(self) -> None:
        self.seconds = {"execute": 0.0, "capture": 0.0, "index": 0.0}
        self._since = time.monotonic()

    def restart(self) -> None:
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now


def save_lineage_tables(execution: Execution, folder: RunFolder) -> LineageTables:
    """Records the run's lineage tables in its folder, for building the index."""
    plan, writing, names = execution.plan, execution.writing, execution.names
    tables = (*plan.tables(), *_failing_tables(plan, writing))
    rows: dict[Space, TableRows] = dict(writing.tables)
    for table in tables:
        if table.space.is_step:
            version = writing.versions[table.space.name]
            handles = tuple(names.handles(len(table.handles)))
            rows[table.space] = TableRows("files", tuple(file.path for file in version.files), None, handles)
    workload = plan.workload
    settings = session_conf(execution)
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
    """Rows that fail checks have the handles of the original rows."""
    handles = {each.node.id: each.handles for each in plan.nodes}
    return [
        Table(step_space(name), handles[failing.step]) for name, failing in writing.failed.items() if failing.handles
    ]
