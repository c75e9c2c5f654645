"""One run of a workflow, as the table of contents of the project: load, build, open, instrument, rehearse, write,
check, index, commit. Nothing is visible before the last line; whatever fails before it leaves nothing behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, StepRecord, VersionRecord

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.capture.instrument import InstrumentedPlan, instrument
from lineage_service.capture.strategies import check_capture
from lineage_service.checked import checked_workflow
from lineage_service.errors import Problem
from lineage_service.index.finish import Finisher, Hop, TableFiles, hops_between
from lineage_service.plan.build import build_plan
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource, OutputSpec
from lineage_service.store.layout import HomeLayout, RunFolder, working_folder
from lineage_service.store.publish import discarding, prepare_publications, publish
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.spark.columns import Names
    from lineage_service.spark.sources import OpenSource
    from lineage_service.spark.staging import Writing

Progress = Callable[[str], None]
Pairs = dict[tuple[Space, Space], int]


@dataclass(frozen=True)
class RunOptions:
    """How a workflow is run: capture (None: as the file says), variables, and where Spark is."""

    capture: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunReport:
    """What a run did, in the shape of the contract."""

    run_id: str
    workflow: str
    status: str
    vars: dict[str, str]
    outputs: dict[str, dict[str, int]]
    sources: dict[str, dict[str, int]]
    capture: dict[str, dict[str, dict[str, Any]]]
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id, "workflow": self.workflow, "status": self.status, "vars": self.vars,
            "outputs": self.outputs, "sources": self.sources, "capture": self.capture, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class Access:
    """What a run needs of the catalog: versions by dataset name and by id, and the one write."""

    version_of: Callable[[str], Version | None]
    require_version: Callable[[str], Version]
    known: Callable[[str], Version | None]
    commit: Callable[[Commit], None]


def run_workflow(file: str | Path, options: RunOptions, home: HomeLayout, access: Access, tell: Progress) -> RunReport:
    """Runs a workflow and commits it."""
    started = datetime.now(UTC)
    loaded, _, warnings = checked_workflow(file, options.vars, access.version_of)
    capture = options.capture or loaded.spec.lineage.capture
    check_capture(capture)
    publications = prepare_publications(loaded)
    with discarding(publications), working_folder(home) as folder:
        clock = _Clock()
        tell("starting Spark")
        from lineage_service.spark.checks import run_checks
        from lineage_service.spark.columns import Names
        from lineage_service.spark.lower import lower_plan
        from lineage_service.spark.publish import write_publication
        from lineage_service.spark.session import spark_session
        from lineage_service.spark.staging import Rehearsal, Writing

        spark = spark_session(options.master, options.remote, options.conf)
        clock.restart()
        tell("opening sources")
        sources = _open_sources(spark, loaded, folder, access)
        plan = build_plan(loaded, {name: source.schema for name, source in sources.items()})
        instrumented = instrument(plan, capture)
        names = Names.apart_from(name for node in plan.nodes() for name in node.schema.names)
        relations = {name: source.relation(names, captured=capture != "off") for name, source in sources.items()}
        lower_plan(instrumented, relations, Rehearsal(names), names)
        writing = Writing(spark, names, folder, tell=tell)
        lowered = lower_plan(instrumented, relations, writing, names)
        warned = run_checks(loaded, lowered)
        for publication in publications:
            write_publication(publication, lowered[publication.step], home.path)
        for source in sources.values():
            source.refuse_changed()
        clock.lap("execute")
        tell("indexing lineage")
        hops, pairs = _finish(instrumented, writing, names, folder)
        clock.lap("index")
        report = _report(folder.run_id, loaded, instrumented, sources, writing, hops, pairs, clock.seconds)
        tell("committing")
        folder.sync()
        access.commit(_commit(started, loaded, instrumented, sources, writing, hops, report, folder))
    publish(publications)
    return _with_warnings(report, [*warnings, *warned])


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


def _open_sources(spark: Any, loaded: LoadedWorkflow, folder: RunFolder, access: Access) -> dict[str, OpenSource]:
    from lineage_service.spark.sources import SourceOpener

    opener = SourceOpener(spark, folder, loaded.path.parent, access.require_version, access.known)
    return {
        name: opener.open(name, source, loaded.marks.at("sources", name, "output" if source.output else "path"))
        for name, source in loaded.spec.sources.items()
        if not isinstance(source, BrokenSource)
    }


def _finish(plan: InstrumentedPlan, writing: Writing, names: Names, folder: RunFolder) -> tuple[list[Hop], Pairs]:
    """The run's index, and how many pairs each output has with each source."""
    if plan.capture == "off":
        return [], {}
    files: dict[Any, TableFiles] = {}
    for table in plan.tables():
        handles = tuple(names.handles(len(table.handles)))
        if table.space in writing.tables:
            written = sorted(str(path) for path in writing.tables[table.space].glob("*.parquet"))
            files[table.space] = TableFiles(tuple(written), names.group, handles)
        elif table.everything is None:
            version = writing.versions[table.space.removeprefix("step:")]
            paths = tuple(folder.home.absolute(file.path) for file in version.files)
            files[table.space] = TableFiles(paths, None, handles)
    folder.index.mkdir(parents=True, exist_ok=True)
    finisher = Finisher(plan.tables(), files, folder.index, folder.temporary / "spill")
    return finisher.finish(), finisher.pairs


def _report(
    run_id: str,
    loaded: LoadedWorkflow,
    plan: InstrumentedPlan,
    sources: Mapping[str, OpenSource],
    writing: Writing,
    hops: list[Hop],
    pairs: Pairs,
    seconds: dict[str, float],
) -> RunReport:
    versions = {name: writing.versions[step] for name, step in plan.plan.outputs.items()}
    strategy = "off" if plan.capture == "off" else "stage"
    captured: dict[str, dict[str, dict[str, Any]]] = {}
    for name, step in plan.plan.outputs.items():
        captured[name] = {
            source: {"strategy": strategy, "pairs": pairs[start, target], "bytes": _bytes(hops, start, target)}
            for source in sources
            if (start := step_space(step), target := source_space(source)) in pairs
        }
    return RunReport(
        run_id,
        loaded.spec.name,
        "committed",
        dict(loaded.variables),
        {name: {"rows": version.rows, "bytes": version.bytes} for name, version in versions.items()},
        {name: {"rows": source.version.rows} for name, source in sources.items()},
        captured,
        seconds,
    )


def _bytes(hops: list[Hop], start: Space, target: Space) -> int:
    return sum(hop.bytes for hop in hops_between(hops, start, target))


def _with_warnings(report: RunReport, warnings: list[Problem]) -> RunReport:
    return RunReport(**{**_fields(report), "warnings": tuple(str(warning) for warning in warnings)})


def _fields(report: RunReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in RunReport.__dataclass_fields__}


def _commit(
    started: datetime,
    loaded: LoadedWorkflow,
    plan: InstrumentedPlan,
    sources: Mapping[str, OpenSource],
    writing: Writing,
    hops: list[Hop],
    report: RunReport,
    folder: RunFolder,
) -> Commit:
    """Everything the catalog will hold of this run."""
    run_id, workflow = folder.run_id, loaded.spec.name
    datasets, versions = [], {}
    for name, source in sources.items():
        declared = loaded.spec.sources[name]
        body = "{}" if isinstance(declared, BrokenSource) else declared.model_dump_json(by_alias=True)
        datasets.append(DatasetRecord(run_id, workflow, name, "source", source_space(name), source.version.id, body))
        versions[source.version.id] = source.version
    for name, step in {**plan.plan.outputs, **{step: step for step in plan.plan.keep}}.items():
        version = writing.versions[step]
        output = loaded.spec.outputs.get(name)
        body = output.model_dump_json(by_alias=True) if isinstance(output, OutputSpec) else "{}"
        role = "output" if name in plan.plan.outputs else "step"
        datasets.append(DatasetRecord(run_id, workflow, name, role, step_space(step), version.id, body))
        versions[version.id] = version
    run = RunRecord(
        run_id,
        workflow,
        loaded.version,
        "committed",
        plan.capture,
        json.dumps(loaded.variables),
        json.dumps(report.to_json()),
        started.isoformat(timespec="milliseconds"),
        datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    return Commit(
        run,
        loaded.spec.model_dump_json(by_alias=True),
        tuple(
            StepRecord(
                each.node.id,
                type(each.node).__name__.lower(),
                each.choice.strategy if each.choice else None,
                each.choice.reason if each.choice else None,
            )
            for each in plan.nodes
        ),
        tuple(
            VersionRecord(version.id, version.kind, run_id, version.rows, version.bytes, version.to_json())
            for version in versions.values()
        ),
        tuple(datasets),
        tuple(_hop_record(hop, run_id, folder) for hop in hops),
    )


def _hop_record(hop: Hop, run_id: str, folder: RunFolder) -> HopRecord:
    def inside(path: Path | None) -> str | None:
        return None if path is None else folder.home.relative(path)

    return HopRecord(
        run_id, hop.source, hop.target, int(hop.role), hop.form, hop.rows, hop.bytes, inside(hop.backward),
        inside(hop.forward),
    )  # fmt: skip
