"""The report of a run, and its catalog records."""

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
from lineage_service.index.hops import Hop, hops_between
from lineage_service.index.prepared_files import PreparedFile
from lineage_service.runs.column_records import RunColumns
from lineage_service.runs.workflow_content import kept_content, kept_variables
from lineage_service.runs.workflow_execution import Execution
from lineage_service.spec.environment import has_mark, with_references
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import OutputSpec, SourceSpec
from lineage_service.store.layout import RunFolder
from lineage_service.store.versions import Version, private_id

Pairs = dict[tuple[Space, Space], int | None]


@dataclass(frozen=True, repr=False)
class RunReport:
    """What a run did, in the documented format.

    program, execution: of a write of a program, its file, and the id that all writes of one execution have in common
    """

    run_id: str
    workflow: str
    status: str
    vars: dict[str, str]
    outputs: dict[str, dict[str, int]]
    sources: dict[str, dict[str, int]]
    capture: dict[str, dict[str, dict[str, Any]]]
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()
    program: str | None = None
    execution: str | None = None

    def __repr__(self) -> str:
        """Omits the values of variables, which may be secrets."""
        outputs = ", ".join(f"{name} {facts.get('rows', 0)} rows" for name, facts in self.outputs.items())
        return f"<RunReport {self.run_id} of {self.workflow}, {self.status}: {outputs}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id, "workflow": self.workflow, "status": self.status, "vars": self.vars,
            "outputs": self.outputs, "sources": self.sources, "capture": self.capture, "seconds": self.seconds,
            **({"program": self.program, "execution": self.execution} if self.program is not None else {}),
        }  # fmt: skip


def run_report(
    status: str, loaded: LoadedWorkflow, execution: Execution, seconds: dict[str, float], folder: RunFolder
) -> RunReport:
    """The report at the commit of the outputs: with strategies, but without pairs."""
    plan, sources, writing = execution.plan, execution.sources, execution.writing
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
    """For each dataset and source, the strategies of the breakers between them; `none` if there are none and ids are
    passed along.
    """
    strategies = {table.space: each.choice.strategy for each in plan.nodes if each.choice for table in each.tables}
    tables = {table.space: table for table in plan.tables()}
    found: dict[tuple[Space, Space], str] = {}
    for each in plan.datasets:
        reached: dict[Space, set[str]] = {}
        _collect_strategies(step_space(each.node.step), set(), tables, strategies, reached)
        for space, met in reached.items():
            if space.is_source:
                found[step_space(each.node.step), space] = "+".join(sorted(met)) or "none"
    return found


def _collect_strategies(
    space: Space,
    met: set[str],
    tables: Mapping[Space, Table],
    strategies: Mapping[Space, str],
    reached: dict[Space, set[str]],
) -> None:
    """Collects every space behind one, with the strategies on the ways there. Absence is ignored."""
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
    """The report with the indexed pairs. `outputs` are the steps of the outputs."""
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
    execution: Execution,
    report: RunReport,
    folder: RunFolder,
    capture: str,
    note: str | None = None,
    written: Mapping[str, Any] | None = None,
) -> Commit:
    """All catalog records of this run except its lineage, which follows. `note` is the reason why lineage is
    incomplete. `written`: by output, what is kept of the place where a program wrote it.
    """
    run_id, workflow = folder.run_id, loaded.spec.name
    plan, sources, writing = execution.plan, execution.sources, execution.writing
    datasets, versions = [], {}
    for name, source in sources.items():
        declared = loaded.spec.valid_sources[name]
        kept_source = (loaded.kept or loaded).spec.valid_sources[name]
        body = _declaration_json(kept_source, declared, folder=str(loaded.path.parent.absolute()))
        known = source.version
        if has_mark(kept_source.reader_options):
            known = replace(known, reading={})  # line numbers of the original file do not apply then
        version = known if report.status == "committed" else _version_of_failed_run(known, folder)
        datasets.append(DatasetRecord(run_id, workflow, name, "source", source_space(name), version.id, body))
        versions[version.id] = version
    kept = {**plan.plan.outputs, **{step: step for step in plan.plan.keep}, **{name: name for name in writing.failed}}
    columns = _run_columns(execution, kept)
    for name, step in kept.items():
        version = columns.version_with_pii_marks(name)
        output = loaded.spec.outputs.get(name)
        kept_output = (loaded.kept or loaded).spec.outputs.get(name)
        body = "{}"
        if isinstance(output, OutputSpec) and isinstance(kept_output, OutputSpec):
            more = {"written": written[name]} if written and name in written else {}
            body = _declaration_json(kept_output, output, folder=str(loaded.path.parent.absolute()), **more)
        role = "output" if name in plan.plan.outputs else "failing" if name in writing.failed else "step"
        datasets.append(DatasetRecord(run_id, workflow, name, role, step_space(step), version.id, body))
        versions[version.id] = version
    counted = _node_row_counts(execution)
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
        execution.subjects,
    )


def _declaration_json(kept: SourceSpec | OutputSpec, declared: SourceSpec | OutputSpec, **more: Any) -> str:
    """The declaration of a dataset, and the folder that its path is relative to. Values of the environment are stored
    as references, except in the path, which is needed to find the files again.
    """
    body = json.loads(kept.model_dump_json(by_alias=True))
    if has_mark(body):
        body = {**with_references(body), "path": declared.path}
    return json.dumps({**body, **more})


def _run_columns(execution: Execution, kept: Mapping[str, str]) -> RunColumns:
    """The columns of a run's datasets. Rows that failed a check have the columns of the checked step."""
    plan, failed = execution.plan.plan, execution.writing.failed
    steps = {name: failed[name].step if name in failed else step for name, step in kept.items()}
    nodes = {name: plan.steps.get(step) or plan.sources[step] for name, step in steps.items()}
    versions = {name: source.version for name, source in execution.sources.items()}
    return RunColumns(
        plan, nodes, {**versions, **{name: execution.writing.versions[step] for name, step in kept.items()}}
    )


def _node_row_counts(execution: Execution) -> dict[str, int]:
    """Row counts of nodes whose rows were written, themselves or below a breaker. Other nodes are not counted."""
    written = execution.writing.rows
    counted = {name: source.version.rows for name, source in execution.sources.items()}
    for each in execution.plan.nodes:
        node = each.node
        if each.is_dataset:
            counted[node.id] = execution.writing.versions[node.step].rows
        elif node.id in written:
            counted[node.id] = written[node.id]
        if len(node.inputs) == 1 and each.label_below in written:
            counted.setdefault(node.inputs[0].id, written[each.label_below])
    return counted


def _version_of_failed_run(version: Version, folder: RunFolder) -> Version:
    """A copy of a source in a failed run is removed with it, so later runs must not reuse it."""
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
