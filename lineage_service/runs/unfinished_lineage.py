"""Finishes the lineage of a committed run later: for `index`, or for a question that needs it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_catalog.records import Lineage, RunRecord

from lineage_service.capture.handles import Role
from lineage_service.capture.inferred_predicates import infer_recorded_predicates
from lineage_service.capture.instrument import instrument
from lineage_service.capture.strategies import Choice
from lineage_service.errors import DamagedFile, LineageError, StoreError
from lineage_service.plan.build import build_plan
from lineage_service.progress import Stages
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.runs.lineage_indexing import LineageBuild, build_lineage
from lineage_service.runs.run_report import RunReport, indexed_report
from lineage_service.settings import IndexOptions, command
from lineage_service.spark.heavy_imports import allow_heavy_imports
from lineage_service.store.dataset_names import find_run
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import HomeLayout, run_folder_lock
from lineage_service.store.lineage_tables import LineageTables
from lineage_service.subjects.subject_index import declared_subjects

if TYPE_CHECKING:
    from lineage_service.spark.staging import RunWriter


def finish_runs(store: HomeStore, run: str | None, options: IndexOptions, stages: Stages) -> list[RunReport]:
    """Finishes the lineage of a run, or of all runs with unfinished lineage, and returns their reports. Copies that
    killed runs did not publish are published first.
    """
    reader = store.reader
    if run is not None:
        wanted = [find_run(reader, run, str(store.layout.path)).id]
    else:
        wanted = [each.id for each in reader.unfinished_runs()]
    problems = store.finish_publications(by_name=True)
    reports = [report for each in wanted if (report := finish_lineage(store, each, options, stages))]
    if problems:
        raise StoreError(problems)
    return reports


def finish_lineage(store: HomeStore, run_id: str, options: IndexOptions, stages: Stages) -> RunReport | None:
    """The report of a run whose lineage is complete now; None if it was complete before. Raises LineageError if it
    cannot be finished.
    """
    reader, folder = store.reader, store.layout.run_folder(run_id)

    def waiting() -> None:
        with stages.stage(f"waiting for another process that works on run '{run_id}'"):
            pass

    with run_folder_lock(folder, waiting):
        record = reader.run(run_id)
        if record is None or record.lineage == "complete":
            return None
        run = CommittedRun(store.layout, reader, record)
        tables = LineageTables.load(folder)
        if tables is None:
            raise StoreError(
                f"the lineage of run '{run_id}' cannot be finished: the files it needs no longer exist",
                hint="run the workflow again",
            )
        declared = [
            each
            for dataset in run.datasets
            if dataset.role == "source"
            for each in declared_subjects(dataset.name, json.loads(dataset.declared).get("subject"))
        ]
        build = LineageBuild(
            folder, tables, run.versions, lambda: reread_run(run, tables, options, stages), options.engine, declared,
            reader.subjects,
        )  # fmt: skip
        error = build_lineage(build, stages)
        if isinstance(error, DamagedFile):
            raise error  # the run stays as it is: when the file is back, the next question finishes its lineage
        if error is not None:
            store.commit_lineage(Lineage(run_id, "incomplete", error.problems[0].message))
            raise error
        report = RunReport(**{**json.loads(record.report), "warnings": ()})
        report = replace(report, seconds={**report.seconds, **build.seconds})
        outputs = {each.name: each.space.name for each in run.datasets if each.role == "output"}
        report = indexed_report(report, outputs, build.hops, build.pairs)
        folder.sync()
        store.commit_lineage(build.lineage(report.to_json()))
        build.clear()
        return report


def reread_run(run: CommittedRun, tables: LineageTables, options: IndexOptions, stages: Stages) -> RunWriter:
    """The run's plan on Spark, over what it read and wrote. Nothing is computed yet."""
    with stages.stage("starting Spark"):
        allow_heavy_imports()
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.deferred_capture import reread_plan
        from lineage_service.spark.open_sources import SourceOpener
        from lineage_service.spark.spark_session import session_under, spark_session

        # Uses the settings of the run, so that expressions mean the same.
        spark = session_under(spark_session(options.master, options.remote, options.conf), tables.conf)
    names, opener = CaptureColumnNames(tables.prefix), SourceOpener(spark, run.folder)
    sources = {name: opener.reopen(name, source, run.source_version(name)) for name, source in run.sources.items()}
    plan = build_plan(run.workflow, {name: source.schema for name, source in sources.items()})
    steps = run.reader.steps(run.id)
    plan = infer_recorded_predicates(plan, {step.node for step in steps})
    chosen = {
        step.node: Choice(step.strategy, step.reason or "", step.estimate)
        for step in steps
        if step.strategy is not None
    }
    older = any(handle.role is Role.PEER and not handle.space.is_window for t in tables.tables for handle in t.handles)
    instrumented = instrument(plan, run.record.capture, chosen=chosen, by_partition=older)
    return reread_plan(instrumented, sources, run.step_versions, run.folder, names, tables.salt)


def incomplete_error(home: HomeLayout, run: RunRecord) -> LineageError:
    """The error of questions over a run whose lineage could not be captured."""
    again = command(home.path, "index", run.id, catalog=home.catalog)
    return LineageError(
        f"the lineage of run '{run.id}' is incomplete: {run.lineage_note or 'it could not be captured'}",
        hint=f"its outputs can be read; try again: {again}",
    )
