"""Spec to plan: resolves names, collects all problems, and raises them together.

The caller passes the schemas of sources: as far as they are known without Spark for validation, and as Spark reports
them for a run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter

from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.call_arguments import bare_dates, sums_of_text, week_based_patterns
from lineage_service.plan.declarations import declaration_problems
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.nodes import Aggregate, Filter, Node, PlanError, Source, Window
from lineage_service.plan.plan_rewriting import nodes_inputs_first
from lineage_service.plan.schema import ColumnError, Schema
from lineage_service.plan.step_nodes import StepNodeBuilder
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource, BrokenStep, WorkloadQuery
from lineage_service.spec.name_checks import TOO_DEEP
from lineage_service.spec.step_models import AnyStep

MOST_NODES = 500  # that follow each other; Spark's analysis recurses too
_FRAMES, _FRAMES_OF_NODE = 1_000, 6  # of Python: around a pass over a plan, and at most for each node in it


@dataclass(frozen=True)
class Plan:
    """A workflow with all names resolved.

    workflow: its name
    sources: by name
    steps: the last node of each step
    outputs: output name to step name
    keep: intermediate steps that are datasets too
    checked: steps with checks
    warnings: problems that are no errors
    workload: the declared questions
    """

    workflow: str
    sources: dict[str, Source]
    steps: dict[str, Node]
    outputs: dict[str, str]
    keep: tuple[str, ...]
    checked: frozenset[str] = frozenset()
    warnings: tuple[Problem, ...] = ()
    workload: tuple[WorkloadQuery, ...] = ()

    def nodes(self) -> list[Node]:
        """Every node that an output, a kept step or a check needs, inputs before readers."""
        return nodes_inputs_first(
            *(self.steps[step] for step in (*self.outputs.values(), *self.keep, *sorted(self.checked)))
        )


def build_plan(loaded: LoadedWorkflow, schemas: Mapping[str, Schema]) -> Plan:
    """The plan of a loaded workflow. Raises WorkflowError with all problems, in file order."""
    if any(problem.message.endswith(TOO_DEEP) for problem in loaded.problems):
        raise WorkflowError(loaded.problems)
    builder = _PlanBuilder(loaded, schemas)
    plan = builder.build()
    # Every pass over the plan recurses, whenever it is made. Not undone: it is a limit, and costs nothing.
    needed = _FRAMES + _FRAMES_OF_NODE * max(builder.depths.values(), default=0)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), needed))
    silent = loaded.unresolved_positions()
    found = [*loaded.problems, *(problem for problem in builder.problems if problem.position not in silent)]
    if any(problem.severity == "error" for problem in found):
        raise WorkflowError(sorted(dict.fromkeys(found), key=_line_and_column))
    return plan


def _reads(step: AnyStep | BrokenStep) -> tuple[str, ...]:
    return step.inputs if isinstance(step, BrokenStep) else step.reads


def _line_and_column(problem: Problem) -> tuple[int, int]:
    return (problem.position.line, problem.position.column) if problem.position else (0, 0)


@dataclass
class _PlanBuilder:
    loaded: LoadedWorkflow
    schemas: Mapping[str, Schema]
    problems: list[Problem] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
    unresolved_parts: set[tuple[str | int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.unresolved_parts = self.loaded.unresolved_parts()

    def build(self) -> Plan:
        spec = self.loaded.spec
        sources = {}
        for name, source in spec.sources.items():
            schema = Schema(known=False) if isinstance(source, BrokenSource) else self.schemas.get(name)
            sources[name] = self._source(name, schema or Schema(known=False))
        self.nodes.update(sources)
        for index in self._step_order():
            self._step(index)
        outputs = {name: output.step or name for name, output in spec.outputs.items()}
        for name, step in outputs.items():
            self._check_output(step, self.loaded.marks.at("outputs", name))
        self.problems += declaration_problems(self.loaded, self.nodes)
        for index, step in enumerate(spec.lineage.keep):
            self._check_output(step, self.loaded.marks.at("lineage", "keep", index))
        steps = {name: node for name, node in self.nodes.items() if name not in sources}
        self.problems += self._sums_of_text()
        self.problems += self._bare_dates()
        self.problems += self._week_based_patterns()
        found = (*self.loaded.problems, *self.problems)
        warnings = tuple(dict.fromkeys(problem for problem in found if problem.severity == "warning"))
        checked = frozenset(step.name for step in spec.steps if not isinstance(step, BrokenStep) and step.checks)
        keep = tuple(dict.fromkeys(spec.lineage.keep))
        return Plan(spec.name, sources, steps, outputs, keep, checked, warnings, spec.lineage.workload)

    def _sums_of_text(self) -> Iterator[Problem]:
        for node in self.nodes.values():
            inner = node.input if isinstance(node, Filter) and isinstance(node.input, Aggregate) else node
            for expression, schema in inner.expressions_with_schemas() if isinstance(inner, Aggregate | Window) else ():
                for message, hint in sums_of_text(expression.tokens, partial(column_type, schema)):
                    yield Problem(message, expression.position, hint, "warning")

    def _bare_dates(self) -> Iterator[Problem]:
        for node in self.nodes.values():
            for expression, _ in node.expressions_with_schemas():
                for text in bare_dates(expression.tokens):
                    message = f"{text} without quotes is a subtraction, and no date"
                    yield Problem(message, expression.position, f"write date '{text}'", "warning")

    def _week_based_patterns(self) -> Iterator[Problem]:
        for node in self.nodes.values():
            for expression, _ in node.expressions_with_schemas():
                for message, hint in week_based_patterns(expression.tokens):
                    yield Problem(message, expression.position, hint, "warning")

    def _source(self, name: str, schema: Schema) -> Source:
        position, source = self.loaded.marks.key("sources", name), self.loaded.spec.sources[name]
        try:
            return Source(name, name, position, schema, () if isinstance(source, BrokenSource) else source.pii)
        except PlanError as error:
            self.problems += error.problems
            return Source(name, name, position, Schema(known=False))

    def _step_order(self) -> Iterable[int]:
        """Indexes of steps, inputs first. Without steps of a cycle, which the loader reported, and those that read
        them.
        """
        steps = self.loaded.spec.steps
        index_of = {step.name: index for index, step in enumerate(steps) if step.name}
        reads = {
            index: {index_of[name] for name in _reads(step) if name in index_of and index_of[name] != index}
            for index, step in enumerate(steps)
        }
        sorter = TopologicalSorter(reads)
        with suppress(CycleError):
            sorter.prepare()
        while ready := sorter.get_ready():
            yield from ready
            sorter.done(*ready)

    def _step(self, index: int) -> None:
        step = self.loaded.spec.steps[index]
        if isinstance(step, BrokenStep):
            if step.name:
                self.nodes[step.name] = Source(step.name, step.name, None, Schema(known=False))
            return
        builder = StepNodeBuilder(self.loaded, self.nodes, index, step)
        try:
            self.nodes[step.name] = builder.build()
        except PlanError as error:
            builder.problems += error.problems
        self.problems += builder.problems
        is_too_deep = step.name in self.nodes and self._depth_of(self.nodes[step.name]) > MOST_NODES
        if is_too_deep:
            message = f"step '{step.name}' is behind more than {MOST_NODES} operations that follow each other"
            hint = "a query is compiled to several operations; let another workflow read an output of the steps before"
            self.problems.append(Problem(message, self.loaded.marks.at("steps", index, "name"), hint))
        if is_too_deep or builder.failed or ("steps", index) in self.unresolved_parts or step.name not in self.nodes:
            # Later steps are checked as if this one had any column: its own problem is reported once.
            self.nodes[step.name] = Source(step.name, step.name, None, Schema(known=False))

    def _depth_of(self, node: Node) -> int:
        """The number of nodes that follow each other, this one included."""
        waiting = [node]
        while waiting:
            unknown = [each for each in waiting[-1].inputs if id(each) not in self.depths]
            if unknown:
                waiting += unknown
            else:
                last = waiting.pop()
                self.depths[id(last)] = 1 + max((self.depths[id(each)] for each in last.inputs), default=0)
        return self.depths[id(node)]

    def _check_output(self, step: str, position: Position) -> None:
        node = self.nodes.get(step)
        if node is None:
            return
        try:
            node.schema.unambiguous_columns()
        except ColumnError as error:
            self.problems.append(Problem(error.message, position, error.hint))
