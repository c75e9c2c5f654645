"""Opens the inputs of a run again, to evaluate its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.capture.handles import Space, source_space
from lineage_service.capture.instrument import InstrumentedPlan
from lineage_service.plan.nodes import (
    Source,
    keeps_order,
)
from lineage_service.plan.plan_rewriting import nodes_below
from lineage_service.progress import Stages
from lineage_service.query.changed_files import changed_error, changed_files
from lineage_service.query.query_engine import QueryEngine
from lineage_service.settings import IndexOptions
from lineage_service.spark.heavy_imports import allow_heavy_imports
from lineage_service.store.checksums import verify
from lineage_service.store.version_scan import VersionScan
from lineage_service.why_not.question import WhyNotQuestion

if TYPE_CHECKING:
    from lineage_service.spark.evaluation import Evaluation
    from lineage_service.spark.relation import Relation


def open_inputs(
    question: WhyNotQuestion,
    plan: InstrumentedPlan,
    engine: QueryEngine,
    rows: str,
    given: Mapping[Space, str],
    folder: Path,
    stages: Stages,
) -> tuple[Evaluation, dict[str, Relation], dict[str, Relation], dict[str, str]]:
    """A stage, the relations that the plan reads, the relations of all unchanged sources without ids, and notes about
    sources of which only some files are unchanged.
    """
    scans = {name: _scan(question, name) for name in question.plan.sources}
    changed = {name: found for name, scan in scans.items() if (found := _changed_files(scan))}
    read = [each.node.step for each in plan.nodes if isinstance(each.node, Source)]
    gone: dict[str, str] = {}
    for name in read:
        if name not in changed:
            continue
        scan, full = scans[name], f"{question.run.workflow_name}.{name}"
        paths = [scan.paths[index] for index in changed[name]]
        hint = "run the workflow again and ask that run; `snapshot: true` keeps old runs answerable"
        inside = 0
        if name in question.starts:
            held = f"(SELECT DISTINCT id AS b FROM {given[source_space(name)]})" if given else rows
            rids = " UNION ALL ".join(scan.rids_of_file(index) for index in changed[name])
            inside = engine.scalar(f"SELECT count(*) FROM {held} s SEMI JOIN ({rids}) f ON f.b = s.b")
        if inside or len(paths) == len(scan.paths) or scan.version.kind != "source" or scan.version.gaps:
            total = engine.scalar(f"SELECT count(*) FROM {rows}") if inside else None
            raise changed_error(full, question.run.id, paths, inside if inside else None, total, hint)
        gone[name] = changed_error(full, question.run.id, paths).problems[0].message
    with stages.stage("starting Spark"):
        allow_heavy_imports()
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.evaluation import Evaluation
        from lineage_service.spark.open_sources import SourceOpener
        from lineage_service.spark.spark_session import session_under, spark_session
        from lineage_service.spark.staging import new_salt

        options, run_folder = IndexOptions(), question.run.folder
        # Uses the settings of the run, so that expressions mean the same.
        spark = session_under(spark_session(options.master, options.remote, options.conf), question.run.settings or {})
    names = CaptureColumnNames.apart_from(name for node in question.plan.nodes() for name in node.schema.names)
    steps = question.run.step_versions
    stage = Evaluation(
        spark,
        names,
        run_folder,
        versions=steps,
        stages=stages,
        salt=new_salt(),
        temporary=folder,
        target=question.target,
    )
    opener = SourceOpener(spark, run_folder)
    relations: dict[str, Relation] = {}
    plain: dict[str, Relation] = {}
    below = {each.step for each in nodes_below(question.plan.steps[question.target]) if isinstance(each, Source)}
    for name, source in question.run.sources.items():
        if name not in below or (name in changed and name not in gone):
            continue
        version = question.run.source_version(name)
        if name in gone:
            left = [file for index, file in enumerate(version.files) if index not in changed[name]]
            version = replace(version, files=tuple(left), top=version.end)
        opened = opener.reopen(name, source, version)
        relations[name] = opened.relation(names, captured=True)
        if name not in gone:
            plain[name] = opened.relation(names, captured=False)
    for name in read:
        if name not in question.plan.sources:
            relations[name] = stage.written_rows(steps[name], in_order=keeps_order(question.plan.steps[name]))
    return stage, relations, plain, gone


def _scan(question: WhyNotQuestion, name: str) -> VersionScan:
    version = question.run.versions[source_space(name)]
    return VersionScan(
        version, tuple(question.run.home.absolute(file.path) for file in version.files), question.run.home.absolute
    )


def _changed_files(scan: VersionScan) -> list[int]:
    """The files that have changed or are gone."""
    gone = [index for index, path in enumerate(scan.paths) if not Path(path).exists()]
    verify(*(scan.paths[index] for index in gone))  # raises DamagedFile if a file of the home is missing
    return sorted({*changed_files(scan), *gone})
