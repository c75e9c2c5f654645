"""A committed run's lineage finished after the command that ran it: by `index`, or by a question that needs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, Lineage, RunRecord

from lineage_service.capture.handles import Role, is_window
from lineage_service.capture.instrument import instrument
from lineage_service.capture.strategies import Choice
from lineage_service.errors import DamagedFile, LineageError, StoreError
from lineage_service.plan.build import build_plan
from lineage_service.progress import Stages
from lineage_service.runs.lineage_indexing import LineageBuild, build_lineage
from lineage_service.runs.run_report import RunReport, indexed_report
from lineage_service.runs.workflow_content import load_run
from lineage_service.settings import IndexOptions, command
from lineage_service.spec.models import BrokenSource, SourceSpec
from lineage_service.store.layout import HomeLayout, run_folder_lock
from lineage_service.store.lineage_tables import LineageTables
from lineage_service.store.versions import Version
from lineage_service.subjects.subject_index import declared_subjects

if TYPE_CHECKING:
    from lineage_service.spark.staging import RunWriter


def finish_lineage(
    home: HomeLayout,
    reader: CatalogReader,
    run_id: str,
    settle: Callable[[Lineage], bool],
    options: IndexOptions,
    stages: Stages,
) -> RunReport | None:
    """The report of a run whose lineage is complete now; None where it was before. LineageError where it cannot be."""
    folder = home.run_folder(run_id)

    def waiting() -> None:
        with stages.stage(f"waiting for whoever is at work on run '{run_id}'"):
            pass

    with run_folder_lock(folder, waiting):
        run = reader.run(run_id)
        if run is None or run.lineage == "complete":
            return None
        tables = LineageTables.load(folder)
        if tables is None:
            raise StoreError(
                f"the lineage of run '{run_id}' cannot be finished: what it was to be made of is no longer there",
                hint="run the workflow again",
            )
        versions = versions_of(reader, run_id)
        declared = [
            each
            for dataset in reader.datasets(run_id)
            if dataset.role == "source"
            for each in declared_subjects(dataset.name, json.loads(dataset.declared).get("subject"))
        ]
        settling = LineageBuild(
            folder, tables, versions, lambda: reread_run(home, reader, run, tables, options, stages), options.engine,
            declared, reader.subjects,
        )  # fmt: skip
        error = build_lineage(settling, stages)
        if isinstance(error, DamagedFile):
            raise error  # the run stays as it is: once the file is back, the next question finishes its lineage
        if error is not None:
            settle(Lineage(run_id, "incomplete", error.problems[0].message))
            raise error
        report = RunReport(**{**json.loads(run.report), "warnings": ()})
        report = replace(report, seconds={**report.seconds, **settling.seconds})
        outputs = {
            each.name: each.space.removeprefix("step:") for each in reader.datasets(run_id) if each.role == "output"
        }
        report = indexed_report(report, outputs, settling.hops, settling.pairs)
        folder.sync()
        settle(settling.lineage(report.to_json()))
        settling.clear()
        return report


def versions_of(reader: CatalogReader, run_id: str) -> dict[str, Version]:
    """The versions that a run read and wrote, by space, under the names that the run gives their columns."""
    from lineage_service.query.questions import apply_source_renames

    found = {}
    for dataset in reader.datasets(run_id):
        record = reader.version(dataset.version_id)
        if record is not None:
            found[dataset.space] = apply_source_renames(Version.from_json(record.id, record.body), dataset)
    return found


def reread_run(
    home: HomeLayout,
    reader: CatalogReader,
    run: RunRecord,
    tables: LineageTables,
    options: IndexOptions,
    stages: Stages,
) -> RunWriter:
    """The run's plan over what it read and wrote, on Spark; nothing of it is computed yet."""
    with stages.stage("starting Spark"):
        sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "until_spark", False)]
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.deferred_capture import reread_plan
        from lineage_service.spark.open_sources import SourceOpener
        from lineage_service.spark.spark_session import session_under, spark_session

        # Expressions must mean what they meant to the run.
        spark = session_under(spark_session(options.master, options.remote, options.conf), tables.conf)
    folder, names = home.run_folder(run.id), CaptureColumnNames(tables.prefix)
    loaded = load_run(home, reader.content(run.id), run.id)
    records = {each.name: each for each in reader.datasets(run.id)}
    opener = SourceOpener(spark, folder, Path(), _no_version, lambda _: None)
    sources = {
        name: opener.reopen(name, source, _version(reader, records[name]))
        for name, source in loaded.spec.sources.items()
        if isinstance(source, SourceSpec) and not isinstance(source, BrokenSource)
    }
    plan = build_plan(loaded, {name: source.schema for name, source in sources.items()})
    chosen = {
        step.node: Choice(step.strategy, step.reason or "", step.estimate)
        for step in reader.steps(run.id)
        if step.strategy is not None
    }
    older = any(handle.role is Role.PEER and not is_window(handle.space) for t in tables.tables for handle in t.handles)
    instrumented = instrument(plan, run.capture, chosen=chosen, by_partition=older)
    versions = {
        space.removeprefix("step:"): version
        for space, version in versions_of(reader, run.id).items()
        if space.startswith("step:")
    }
    return reread_plan(instrumented, sources, versions, folder, names, tables.salt)


def _version(reader: CatalogReader, dataset: DatasetRecord) -> Version:
    record = reader.version(dataset.version_id)
    if record is None:
        raise StoreError(f"version '{dataset.version_id}' is not in the catalog")
    return Version.from_json(record.id, record.body)


def _no_version(name: str) -> Version:
    raise StoreError(f"'{name}' is not looked up again")


def incomplete_error(home: HomeLayout, run: RunRecord) -> LineageError:
    """What every question over a run says whose lineage could not be captured."""
    again = command(home.path, "index", run.id, catalog=home.catalog)
    return LineageError(
        f"the lineage of run '{run.id}' is incomplete: {run.lineage_note or 'it could not be captured'}",
        hint=f"its outputs can be read; try again: {again}",
    )
