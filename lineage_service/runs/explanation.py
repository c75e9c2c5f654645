"""What a run would do, before it does it: steps, estimates, capture per breaker, what is pruned, column lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan, instrument
from lineage_service.capture.workload_cost import workload_facts
from lineage_service.errors import LineageError, Problem, QuestionError
from lineage_service.plan.build import Plan
from lineage_service.plan.column_lineage import column_lineage
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.runs.run_sizes import LastRun, read_run_sizes
from lineage_service.runs.workflow_graph import source_origin
from lineage_service.settings import command
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource
from lineage_service.spec.step_description import describe_step
from lineage_service.store.dataset_names import find_run
from lineage_service.store.home_store import HomeStore
from lineage_service.store.listing import is_vast, listing
from lineage_service.store.versions import parquet_rows


@dataclass(frozen=True)
class Explanation:
    """An instrumented plan with what is known of its sizes.

    rows: upper bounds from footers, None unknown · does: what each step does, in a line · places: of the sources
    last_run: sizes of the last run, where there is one · warnings: of the file · notes: for who asked
    as_run: whether it tells what that run did, instead of what the next one would do
    links: of sources that are other workflows' outputs, the output's column behind each column
    """

    plan: InstrumentedPlan
    rows: dict[str, int | None]
    needed: dict[str, tuple[str, ...]]
    pushed: dict[str, tuple[str, ...]]
    does: dict[str, str]
    places: dict[str, str]
    warnings: tuple[Problem, ...]
    last_run: LastRun | None = None
    notes: tuple[str, ...] = ()
    as_run: bool = False
    links: Mapping[str, dict[str, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        plan, run = self.plan.plan, self.last_run
        return {
            "workflow": plan.workflow,
            "capture": self.plan.capture,
            "as_run": self.as_run,
            "last_run": {"run_id": run.run_id, "committed_at": run.committed_at} if run else None,
            "sources": {
                name: {
                    "from": self.places.get(name),
                    "rows": self.rows.get(name),
                    "rows_last_run": run.source_rows(name) if run else None,
                    "columns_known": node.schema.known,
                    "columns_read": list(self.needed.get(name, ())),
                    "columns_pruned": [each for each in node.schema.names if each not in self.needed.get(name, ())],
                    "filters_pushed_down": list(self.pushed.get(name, ())),
                    "pii": [each for each in node.schema.names if node.is_pii(each)],
                    "output_columns": self.links.get(name),
                }
                for name, node in plan.sources.items()
            },
            "steps": [self._step(each) for each in self.plan.nodes if not isinstance(each.node, Source)],
            "outputs": {
                name: {
                    "step": step,
                    "rows_last_run": run.outputs.get(name) if run else None,
                    **self._columns(step),
                }
                for name, step in plan.outputs.items()
            },
            "kept": {step: self._columns(step) for step in plan.keep if step not in plan.outputs.values()},
            "workload": self._workload(),
        }

    def _columns(self, step: str) -> dict[str, Any]:
        """What the columns of a dataset are computed from, what only influences them, which show personal data."""
        found = column_lineage(self.plan.plan.steps[step])
        return {
            "columns": {name: list(map(str, each.reads)) for name, each in found.items()},
            "influenced_by": {name: list(map(str, each.influenced_by)) for name, each in found.items()},
            "pii": [name for name, each in found.items() if each.pii],
        }

    def _workload(self) -> dict[str, Any] | None:
        """What is kept for declared questions, what is pruned, and what both are expected to cost and to save."""
        run = self.last_run
        rows = {
            name: self.rows.get(name) if self.rows.get(name) is not None else run.source_rows(name) if run else None
            for name in self.plan.plan.sources
        }
        facts = workload_facts(self.plan, rows)
        for question in facts["questions"] if facts is not None else ():
            made = run.prepared.get(question["name"]) if run and not question["kept"].startswith("pairs, ") else None
            question["rows_last_run"], question["bytes_last_run"] = made or (None, None)
        return facts

    def _step(self, each: InstrumentedNode) -> dict[str, Any]:
        node = each.node
        return {
            "name": node.id,
            "step": node.step,
            "operator": _operator(node),
            "does": self.does.get(node.step),
            "reads": [below.id for below in node.inputs],
            "columns": list(node.schema.names),
            "rows_at_most": self.rows.get(node.id),
            "rows_last_run": self.last_run.step_rows(node.id) if self.last_run else None,
            "capture": self._capture(each),
            "written_once": each.materialised.reason if each.materialised else None,
            "absence": [table.space for table in each.tables if table.space.startswith("side:")],
            "carries": [str(handle) for handle in each.carried],
        }

    def _capture(self, each: InstrumentedNode) -> dict[str, Any] | None:
        if each.choice is None:
            return None
        node, run = each.node.id, self.last_run
        return {
            "strategy": "pruned" if each.choice.is_pruned else each.choice.strategy,
            "reason": each.choice.reason,
            "rows_expected": each.choice.estimate,
            "rows_read": run.members.get(node) if run else None,
            "groups": run.counted.get(node) if run else None,
        }


def explain_committed_run(store: HomeStore, run: str) -> Explanation:
    """What a run did; `run` is its id, a unique prefix of it, or a workflow, whose latest run is meant."""
    reader, path = store.reader, store.layout.path
    found = reader.latest_run(run) or find_run(reader, run, str(path))
    if found.capture == "query":
        raise QuestionError(
            f"run '{found.id}' is of the saved query '{found.workflow}', which has no steps",
            hint=f"its rows: {command(path, 'rows', found.workflow)}",
        )
    committed = CommittedRun(store.layout, reader, found)
    marked = {
        space: {each.name.lower() for each in version.columns if each.pii}
        for space, version in committed.versions.items()
    }
    plan = committed.plan_with_masks(marked)
    return explain_plan(committed.workflow, plan, found.capture, (), read_run_sizes(reader, found), as_run=True)


def explain_plan(
    loaded: LoadedWorkflow,
    plan: Plan,
    capture: str,
    warnings: tuple[Problem, ...],
    last_run: LastRun | None = None,
    notes: tuple[str, ...] = (),
    *,
    as_run: bool = False,
) -> Explanation:
    chosen = last_run.choices if as_run and last_run else None
    sizes = Sizes(
        {name: _known_rows(name, loaded, last_run) for name in loaded.spec.sources},
        last_run.counted if last_run else {},
        last_run.members if last_run else {},
    )
    instrumented = instrument(plan, capture, sizes, chosen)
    rows: dict[str, int | None] = {}
    for each in instrumented.nodes:
        rows[each.node.id] = _row_upper_bound(each.node, rows, loaded)
    content = loaded.spec.model_dump(mode="json", by_alias=True)
    return Explanation(
        instrumented,
        rows,
        _columns_read(plan),
        _pushed_down(plan),
        {step["name"]: describe_step(step) for step in content["steps"]},
        {name: source_origin(source) for name, source in content["sources"].items()},
        warnings,
        last_run,
        notes,
        as_run,
        {
            name: _output_columns(node, content["sources"][name])
            for name, node in plan.sources.items()
            if content["sources"][name].get("output")
        },
    )


def _output_columns(source: Source, declared: Mapping[str, Any]) -> dict[str, str]:
    """For each column of another workflow's output the name that it has there."""
    before = {new.lower(): old for old, new in declared["rename"].items()}
    return {name: f"{declared['output']}.{before.get(name.lower(), name)}" for name in source.schema.names}


def _known_rows(name: str, loaded: LoadedWorkflow, last_run: LastRun | None) -> int | None:
    """Rows of a source by its footers, else as many as the last run read."""
    rows = _source_rows(name, loaded)
    return last_run.source_rows(name) if rows is None and last_run is not None else rows


def _operator(node: Node) -> str:
    if isinstance(node, Join):
        return f"{node.how} join"
    return "with_columns" if isinstance(node, WithColumns) else type(node).__name__.lower()


def _row_upper_bound(node: Node, rows: dict[str, int | None], loaded: LoadedWorkflow) -> int | None:
    """An upper bound of a node's rows from the sources' footers; None where there is none."""
    if isinstance(node, Source):
        return _source_rows(node.step, loaded)
    below = [rows[each.id] for each in node.inputs]
    known = [each for each in below if each is not None]
    if len(known) < len(below):
        return node.n if isinstance(node, Limit) else None
    match node:
        case Limit():
            return min(node.n, known[0])
        case Aggregate():
            return known[0] if node.keys else 1
        case Join(how="semi" | "anti"):
            return known[0]
        case Join():
            return None
        case Explode():
            return None
        case Union():
            return sum(known)
        case _:
            return known[0]


def _source_rows(name: str, loaded: LoadedWorkflow) -> int | None:
    source = loaded.spec.sources[name]
    if isinstance(source, BrokenSource) or source.path is None or source.file_format != "parquet":
        return None
    try:
        if is_vast(source.path, loaded.path.parent):
            return None
        return sum(parquet_rows(path) for path in listing(source.path, loaded.path.parent).files)
    except LineageError:
        return None


def _columns_read(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Per source the columns that anything above reads; the others are never decoded."""
    wanted: dict[str, set[str]] = defaultdict(set)
    nodes = plan.nodes()
    for step in (*plan.outputs.values(), *plan.keep):
        wanted[step] |= {name.lower() for name in plan.steps[step].schema.names}
    for node in reversed(nodes):
        own = wanted[node.id]
        for below in node.inputs:
            wanted[below.id] |= _columns_needed(node, own, below)
    return {
        name: tuple(column for column in source.schema.names if column.lower() in wanted[source.id])
        for name, source in plan.sources.items()
    }


def _columns_needed(node: Node, own: set[str], below: Node) -> set[str]:
    there = {name.lower() for name in below.schema.names}
    read = {ref.parts[0].lower() for expression, _ in node.expressions_with_schemas() for ref in expression.columns}
    match node:
        case Project():
            read = {
                ref.parts[0].lower()
                for named in node.columns
                if named.name.lower() in own
                for ref in named.expression.columns
            }
            return read & there
        case Aggregate():
            return read & there
        case Distinct():
            return there
        case Join():
            on = {part.lower() for ref in (node.on.columns if node.on else ()) for part in ref.parts[:2]}
            return (own | on | {name.lower() for name in node.using}) & there
        case Intersect() | Difference():
            return there
        case Window():
            return (own | read | {name.lower() for name in node.partition_by}) & there
        case Explode():
            return (own | {node.column.lower()}) & there
        case _:
            return (own | read) & there


def _pushed_down(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Filters that stand right above a source, with only projections between: Spark evaluates them in the scan."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in plan.nodes():
        if isinstance(node, Filter) and node.repeatable:
            below: Node = node.input
            while isinstance(below, Filter | WithColumns) and below.repeatable:
                below = below.input
            if isinstance(below, Source):
                found[below.step].append(node.where.text)
    return {name: tuple(texts) for name, texts in found.items()}
