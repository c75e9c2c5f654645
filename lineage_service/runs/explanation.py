"""Explains what a run would do: steps, estimates, capture per breaker, pruned lineage, column lineage."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.inferred_predicates import infer_predicates, infer_recorded_predicates
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan, instrument
from lineage_service.capture.workload_cost import workload_facts
from lineage_service.errors import LineageError, Problem, QuestionError
from lineage_service.plan.build import Plan
from lineage_service.plan.column_demand import columns_needed
from lineage_service.plan.column_lineage import column_lineage
from lineage_service.plan.node_description import describe_node
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    GroupLimit,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.runs.committed_run import CommittedRun
from lineage_service.runs.query_constructs import query_constructs
from lineage_service.runs.run_sizes import LastRun, read_run_sizes
from lineage_service.runs.workflow_graph import source_origin
from lineage_service.settings import command
from lineage_service.spec.environment import HiddenValues
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.step_description import describe_step
from lineage_service.store.dataset_names import find_run
from lineage_service.store.formats.format_registry import format_of_source
from lineage_service.store.home_store import HomeStore
from lineage_service.store.listing import is_vast


@dataclass(frozen=True)
class Explanation:
    """An instrumented plan with known sizes.

    rows: upper bounds from footers; None if unknown
    does: a one-line description of each step
    places: the locations of the sources
    last_run: sizes of the last run, if there is one
    warnings: warnings about the file
    notes: messages for the user
    as_run: whether it describes that run instead of the next one
    hidden: replaces values of the environment by references in what is shown
    constructs: for nodes of sql steps, what stands in the query where they come from
    links: for sources that read other workflows' outputs, the output's column behind each column
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
    hidden: HiddenValues = field(default_factory=HiddenValues)
    constructs: Mapping[str, str] = field(default_factory=dict)

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
        """What the columns of a dataset are computed from, what only influences them, and which show personal data."""
        found = column_lineage(self.plan.plan.steps[step])
        return {
            "columns": {name: list(map(str, each.reads)) for name, each in found.items()},
            "influenced_by": {name: list(map(str, each.influenced_by)) for name, each in found.items()},
            "pii": [name for name, each in found.items() if each.pii],
        }

    def _workload(self) -> dict[str, Any] | None:
        """What is kept for declared questions, what is pruned, and the expected cost and savings."""
        run = self.last_run
        rows = {
            name: self.rows.get(name) if self.rows.get(name) is not None else run.source_rows(name) if run else None
            for name in self.plan.plan.sources
        }
        facts = workload_facts(self.plan, rows)
        for question in facts["questions"] if facts is not None else ():
            made = run.prepared.get(question["name"]) if run and not question["kept"].startswith("pairs, ") else None
            question["kept"] = self.hidden.in_text(question["kept"])
            question["rows_last_run"], question["bytes_last_run"] = made or (None, None)
        return facts

    def _step(self, each: InstrumentedNode) -> dict[str, Any]:
        node = each.node
        return {
            "name": node.id,
            "step": node.step,
            "operator": _operator(node),
            "does": self._does(node),
            "compiled": node.step in self.queries,
            "construct": self.constructs.get(node.id),
            "reads": [below.id for below in node.inputs],
            "columns": list(node.schema.names),
            "rows_at_most": self.rows.get(node.id),
            "rows_last_run": self.last_run.step_rows(node.id) if self.last_run else None,
            "capture": self._capture(each),
            "written_once": each.materialised.reason if each.materialised else None,
            "absence": [table.space for table in each.tables if table.space.is_side],
            "carries": [str(handle) for handle in each.carried],
        }

    def _does(self, node: Node) -> str | None:
        """What the step was told; of a node that a query became, what the node was told."""
        if node.step not in self.queries or node.id == node.step:
            return self.does.get(node.step)
        return self.hidden.in_part(f"{_operator(node)} {describe_node(node)}".strip())

    @property
    def queries(self) -> frozenset[str]:
        """The sql steps, which are shown node by node."""
        return frozenset(step for step, does in self.does.items() if does.startswith("sql "))

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
    """Explains a run. `run` is its id, a unique prefix of it, or a workflow, which means its latest run."""
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
    if as_run:
        inferred = infer_recorded_predicates(plan, last_run.nodes if last_run else ())
    else:
        inferred = infer_predicates(plan, sizes)
    instrumented = replace(instrument(inferred, capture, sizes, chosen), plan=plan)
    rows: dict[str, int | None] = {}
    for each in instrumented.nodes:
        rows[each.node.id] = _row_upper_bound(each.node, rows, loaded)
    content = loaded.content_to_show()
    return Explanation(
        instrumented,
        rows,
        _columns_read(plan),
        {name: tuple(map(loaded.hidden.in_part, texts)) for name, texts in _pushed_down(plan).items()},
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
        loaded.hidden,
        query_constructs(loaded, inferred),
    )


def _output_columns(source: Source, declared: Mapping[str, Any]) -> dict[str, str]:
    """The names of columns in the other workflow's output."""
    before = {new.lower(): old for old, new in declared["rename"].items()}
    return {name: f"{declared['output']}.{before.get(name.lower(), name)}" for name in source.schema.names}


def _known_rows(name: str, loaded: LoadedWorkflow, last_run: LastRun | None) -> int | None:
    """The rows of a source from its footers, otherwise from the last run."""
    rows = _source_rows(name, loaded)
    return last_run.source_rows(name) if rows is None and last_run is not None else rows


def _operator(node: Node) -> str:
    if isinstance(node, Join):
        return f"{node.how} join"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(node).__name__).lower()


def _row_upper_bound(node: Node, rows: dict[str, int | None], loaded: LoadedWorkflow) -> int | None:
    """An upper bound of a node's rows from the sources' footers; None if there is none."""
    if isinstance(node, Source):
        return _source_rows(node.step, loaded)
    below = [rows[each.id] for each in node.inputs]
    known = [each for each in below if each is not None]
    if len(known) < len(below):
        return node.n if isinstance(node, Limit) and not isinstance(node, GroupLimit) else None
    match node:
        case GroupLimit():
            return known[0]
        case Limit():
            rest = max(known[0] - node.offset, 0)
            return rest if node.n is None else min(node.n, rest)
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
        case Filter() | Project() | WithColumns() | Distinct() | Intersect() | Difference() | Window() | Sort():
            return known[0]
        case _:
            assert_never(node)


def _source_rows(name: str, loaded: LoadedWorkflow) -> int | None:
    source = loaded.spec.valid_sources.get(name)
    if source is None or source.path is None:
        return None
    try:
        if is_vast(source.path, loaded.path.parent):
            return None
        form = format_of_source(source)
        counts = [form.row_count(file) for file in form.list_files(source.path, loaded.path.parent).files]
    except LineageError:
        return None
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _columns_read(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Per source, the columns that any step reads. Others are not decoded."""
    wanted: dict[str, set[str]] = defaultdict(set)
    nodes = plan.nodes()
    for step in (*plan.outputs.values(), *plan.keep):
        wanted[step] |= {name.lower() for name in plan.steps[step].schema.names}
    for node in reversed(nodes):
        own = wanted[node.id]
        for below in node.inputs:
            wanted[below.id] |= columns_needed(node, own, below)
    return {
        name: tuple(column for column in source.schema.names if column.lower() in wanted[source.id])
        for name, source in plan.sources.items()
    }


def _pushed_down(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Filters directly above a source, with only projections between. Spark evaluates them in the scan."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in plan.nodes():
        if isinstance(node, Filter) and node.repeatable:
            below: Node = node.input
            while isinstance(below, Filter | WithColumns) and below.repeatable:
                below = below.input
            if isinstance(below, Source):
                found[below.step].append(node.where.text)
    return {name: tuple(texts) for name, texts in found.items()}
