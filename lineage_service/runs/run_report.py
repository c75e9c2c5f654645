"""What a run leaves in words: its report, and everything the catalog will hold of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lineage_catalog.records import (
    Commit,
    DatasetRecord,
    HopRecord,
    PreparedRecord,
    RunRecord,
    StepRecord,
    VersionRecord,
)

from lineage_service.capture.handles import Role, Space, Table, source_space, step_space
from lineage_service.capture.instrument import InstrumentedPlan
from lineage_service.errors import Problem
from lineage_service.index.index_builder import Hop, hops_between
from lineage_service.index.prepared_files import PreparedFile
from lineage_service.runs.column_records import RunColumns
from lineage_service.runs.workflow_content import kept_content, kept_variables
from lineage_service.runs.workflow_execution import Execution
from lineage_service.spec.environment import has_mark, with_references
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource, OutputSpec, SourceSpec
from lineage_service.store.layout import RunFolder
from lineage_service.store.versions import Version, private_id

Pairs = dict[tuple[Space, Space], int | None]


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        """Without the values of variables: a secret may be among them."""
        outputs = ", ".join(f"{name} {facts.get('rows', 0)} rows" for name, facts in self.outputs.items())
        return f"<RunReport {self.run_id} of {self.workflow}, {self.status}: {outputs}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id, "workflow": self.workflow, "status": self.status, "vars": self.vars,
            "outputs": self.outputs, "sources": self.sources, "capture": self.capture, "seconds": self.seconds,
        }  # fmt: skip


def run_report(
    status: str, loaded: LoadedWorkflow, done: Execution, seconds: dict[str, float], folder: RunFolder
) -> RunReport:
    """What is known when the outputs are committed: which strategies, and no pairs yet."""
    plan, sources, writing = done.plan, done.sources, done.writing
    versions = {name: writing.versions[step] for name, step in plan.plan.outputs.items()}
    strategies = strategies_by_dataset(plan)
    captured = {
        name: {
            source: {
                "strategy": "pruned" if plan.is_pruned(step_space(step), source_space(source)) else strategy,
                "pairs": None,
                "bytes": None,
            }
            for source in sources
            if (strategy := strategies.get((step_space(step), source_space(source))))
        }
        for name, step in plan.plan.outputs.items()
    }
    return RunReport(
        folder.run_id,
        loaded.spec.name,
        status,
        kept_variables(loaded),
        {name: {"rows": version.rows, "bytes": version.bytes} for name, version in versions.items()},
        {name: {"rows": source.version.rows} for name, source in sources.items()},
        captured,
        seconds,
    )


def strategies_by_dataset(plan: InstrumentedPlan) -> dict[tuple[Space, Space], str]:
    """Between each dataset and each source: the strategies of the breakers on the ways between, `none` where there are
    none and ids just travel along."""
    strategies = {table.space: each.choice.strategy for each in plan.nodes if each.choice for table in each.tables}
    tables = {table.space: table for table in plan.tables()}
    found: dict[tuple[Space, Space], str] = {}
    for each in plan.datasets:
        reached: dict[Space, set[str]] = {}
        _collect_strategies(step_space(each.node.step), set(), tables, strategies, reached)
        for space, met in reached.items():
            if space.startswith("source:"):
                found[step_space(each.node.step), space] = "+".join(sorted(met)) or "none"
    return found


def _collect_strategies(
    space: Space,
    met: set[str],
    tables: Mapping[Space, Table],
    strategies: Mapping[Space, str],
    reached: dict[Space, set[str]],
) -> None:
    """Every space behind one, with the strategies on the ways there; absence is no way."""
    table = tables.get(space)
    for handle in table.handles if table is not None and table.everything is None else ():
        if handle.role is Role.ABSENCE:
            continue
        own = {strategies[handle.space]} if handle.space in strategies else set()
        before = reached.setdefault(handle.space, set())
        grown = before | met | own
        if handle.space not in reached or grown != before or not before:
            reached[handle.space] = grown
            _collect_strategies(handle.space, grown, tables, strategies, reached)


def indexed_report(report: RunReport, outputs: Mapping[str, str], hops: list[Hop], pairs: Pairs) -> RunReport:
    """The report with the pairs that were indexed; `outputs` are the steps of the outputs."""
    captured = {
        name: {
            source: {
                **facts,
                "pairs": pairs.get((step_space(outputs[name]), source_space(source)), facts["pairs"]),
                "bytes": _bytes(hops, step_space(outputs[name]), source_space(source)),
            }
            for source, facts in sources.items()
        }
        for name, sources in report.capture.items()
    }
    return replace(report, capture=captured)


def _bytes(hops: list[Hop], start: Space, target: Space) -> int:
    return sum(hop.bytes for hop in hops_between(hops, start, target))


def with_warnings(report: RunReport, warnings: Sequence[Problem]) -> RunReport:
    return replace(report, warnings=tuple(str(warning) for warning in warnings))


def run_commit(
    started: datetime,
    loaded: LoadedWorkflow,
    done: Execution,
    report: RunReport,
    folder: RunFolder,
    capture: str,
    note: str | None = None,
) -> Commit:
    """All that the catalog will hold of this run but its lineage, which follows; `note`: why that is incomplete."""
    run_id, workflow = folder.run_id, loaded.spec.name
    plan, sources, writing = done.plan, done.sources, done.writing
    datasets, versions = [], {}
    for name, source in sources.items():
        declared = loaded.spec.sources[name]
        kept_source = (loaded.kept or loaded).spec.sources[name]
        body = "{}"
        known = source.version
        if not isinstance(declared, BrokenSource) and not isinstance(kept_source, BrokenSource):
            body = _declaration_json(kept_source, declared, folder=str(loaded.path.parent.absolute()))
            if has_mark(kept_source.reader_options):
                known = replace(known, reading={})  # lines of the original are not told then
        version = known if report.status == "committed" else _version_of_failed_run(known, folder)
        datasets.append(DatasetRecord(run_id, workflow, name, "source", source_space(name), version.id, body))
        versions[version.id] = version
    kept = {**plan.plan.outputs, **{step: step for step in plan.plan.keep}, **{name: name for name in writing.failed}}
    columns = _run_columns(done, kept)
    for name, step in kept.items():
        version = columns.version_with_pii_marks(name)
        output = loaded.spec.outputs.get(name)
        kept_output = (loaded.kept or loaded).spec.outputs.get(name)
        body = "{}"
        if isinstance(output, OutputSpec) and isinstance(kept_output, OutputSpec):
            body = _declaration_json(kept_output, output, folder=str(loaded.path.parent.absolute()))
        role = "output" if name in plan.plan.outputs else "failing" if name in writing.failed else "step"
        datasets.append(DatasetRecord(run_id, workflow, name, role, step_space(step), version.id, body))
        versions[version.id] = version
    counted = _node_row_counts(done)
    run = RunRecord(
        run_id,
        workflow,
        loaded.version,
        report.status,
        capture,
        json.dumps(kept_variables(loaded)),
        json.dumps(report.to_json()),
        started.isoformat(timespec="milliseconds"),
        datetime.now(UTC).isoformat(timespec="milliseconds"),
        "incomplete" if note else "complete" if capture == "off" else "pending",
        note,
    )
    return Commit(
        run,
        kept_content(folder.home, loaded),
        tuple(
            StepRecord(
                each.node.id,
                type(each.node).__name__.lower(),
                each.choice.strategy if each.choice else None,
                each.choice.reason if each.choice else None,
                counted.get(each.node.id),
                each.choice.estimate if each.choice else None,
            )
            for each in plan.nodes
        ),
        tuple(
            VersionRecord(version.id, version.kind, run_id, version.rows, version.bytes, version.to_json())
            for version in versions.values()
        ),
        tuple(datasets),
        (),
        columns.records(run_id),
        done.subjects,
    )


def _declaration_json(kept: SourceSpec | OutputSpec, declared: SourceSpec | OutputSpec, **more: str) -> str:
    """What the file says of a dataset, and from where its path counts. Values of the environment are references, except
    in the path: where files are is needed to find them again."""
    body = json.loads(kept.model_dump_json(by_alias=True))
    if has_mark(body):
        body = {**with_references(body), "path": declared.path}
    return json.dumps({**body, **more})


def _run_columns(done: Execution, kept: Mapping[str, str]) -> RunColumns:
    """The columns of what a run read and wrote; rows that failed a check are rows of the step that was checked."""
    plan, failed = done.plan.plan, done.writing.failed
    steps = {name: failed[name].step if name in failed else step for name, step in kept.items()}
    nodes = {name: plan.steps.get(step) or plan.sources[step] for name, step in steps.items()}
    versions = {name: source.version for name, source in done.sources.items()}
    return RunColumns(plan, nodes, {**versions, **{name: done.writing.versions[step] for name, step in kept.items()}})


def _node_row_counts(done: Execution) -> dict[str, int]:
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


def _version_of_failed_run(version: Version, folder: RunFolder) -> Version:
    """A copy of a source that lies with a failed run goes with it: no later run may find it by what was read."""
    own = folder.home.relative(folder.path)
    if not any(Path(file.path).is_relative_to(own) for file in version.files):
        return version
    return replace(version, id=private_id(version.id, folder.run_id))


def prepared_record(prepared: PreparedFile, run_id: str, folder: RunFolder) -> PreparedRecord:
    path = None if prepared.path is None else folder.home.relative(prepared.path)
    question = prepared.question
    return PreparedRecord(run_id, question.name, question.kind, prepared.rows, prepared.bytes, path, prepared.body_json)


def hop_record(hop: Hop, run_id: str, folder: RunFolder) -> HopRecord:
    def inside(path: Path | None) -> str | None:
        return None if path is None else folder.home.relative(path)

    return HopRecord(
        run_id, hop.source, hop.target, int(hop.role), hop.form, hop.rows, hop.bytes, inside(hop.backward),
        inside(hop.forward), hop.body_json,
    )  # fmt: skip
