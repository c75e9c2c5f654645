"""What a run leaves in words: its report, and everything the catalog will hold of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, StepRecord, VersionRecord

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.errors import Problem
from lineage_service.execute import Executed
from lineage_service.index.finish import Hop, hops_between
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource, OutputSpec
from lineage_service.store.layout import RunFolder
from lineage_service.store.versions import Version, private_id

Pairs = dict[tuple[Space, Space], int]


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


def run_report(
    status: str,
    loaded: LoadedWorkflow,
    done: Executed,
    hops: list[Hop],
    pairs: Pairs,
    seconds: dict[str, float],
    folder: RunFolder,
) -> RunReport:
    plan, sources, writing = done.plan, done.sources, done.writing
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
        folder.run_id,
        loaded.spec.name,
        status,
        dict(loaded.variables),
        {name: {"rows": version.rows, "bytes": version.bytes} for name, version in versions.items()},
        {name: {"rows": source.version.rows} for name, source in sources.items()},
        captured,
        seconds,
    )


def _bytes(hops: list[Hop], start: Space, target: Space) -> int:
    return sum(hop.bytes for hop in hops_between(hops, start, target))


def with_warnings(report: RunReport, warnings: Sequence[Problem]) -> RunReport:
    return replace(report, warnings=tuple(str(warning) for warning in warnings))


def run_commit(
    started: datetime, loaded: LoadedWorkflow, done: Executed, hops: list[Hop], report: RunReport, folder: RunFolder
) -> Commit:
    """Everything the catalog will hold of this run."""
    run_id, workflow = folder.run_id, loaded.spec.name
    plan, sources, writing = done.plan, done.sources, done.writing
    datasets, versions = [], {}
    for name, source in sources.items():
        declared = loaded.spec.sources[name]
        body = "{}" if isinstance(declared, BrokenSource) else declared.model_dump_json(by_alias=True)
        version = source.version if report.status == "committed" else _private(source.version, folder)
        datasets.append(DatasetRecord(run_id, workflow, name, "source", source_space(name), version.id, body))
        versions[version.id] = version
    kept = {**plan.plan.outputs, **{step: step for step in plan.plan.keep}, **{name: name for name in writing.failed}}
    for name, step in kept.items():
        version = writing.versions[step]
        output = loaded.spec.outputs.get(name)
        body = output.model_dump_json(by_alias=True) if isinstance(output, OutputSpec) else "{}"
        role = "output" if name in plan.plan.outputs else "failing" if name in writing.failed else "step"
        datasets.append(DatasetRecord(run_id, workflow, name, role, step_space(step), version.id, body))
        versions[version.id] = version
    counted = _counted(done)
    run = RunRecord(
        run_id,
        workflow,
        loaded.version,
        report.status,
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
                counted.get(each.node.id),
            )
            for each in plan.nodes
        ),
        tuple(
            VersionRecord(version.id, version.kind, run_id, version.rows, version.bytes, version.to_json())
            for version in versions.values()
        ),
        tuple(datasets),
        tuple(hop_record(hop, run_id, folder) for hop in hops),
    )


def _counted(done: Executed) -> dict[str, int]:
    """Rows of the nodes whose rows were written on the way, as they are or below a breaker; nobody counts others."""
    written = done.writing.rows
    counted = {name: source.version.rows for name, source in done.sources.items()}
    for each in done.plan.nodes:
        node = each.node
        if each.is_dataset:
            counted[node.id] = done.writing.versions[node.step].rows
        elif node.id in written:
            counted[node.id] = written[node.id]
        if len(node.inputs) == 1 and each.label_below in written:
            counted.setdefault(node.inputs[0].id, written[each.label_below])
    return counted


def _private(version: Version, folder: RunFolder) -> Version:
    """A copy of a source that lies with a failed run goes with it: no later run may find it by what was read."""
    own = folder.home.relative(folder.path)
    if not any(Path(file.path).is_relative_to(own) for file in version.files):
        return version
    return replace(version, id=private_id(version.id, folder.run_id))


def hop_record(hop: Hop, run_id: str, folder: RunFolder) -> HopRecord:
    def inside(path: Path | None) -> str | None:
        return None if path is None else folder.home.relative(path)

    return HopRecord(
        run_id, hop.source, hop.target, int(hop.role), hop.form, hop.rows, hop.bytes, inside(hop.backward),
        inside(hop.forward),
    )  # fmt: skip
