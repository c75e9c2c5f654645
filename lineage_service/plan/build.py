"""Spec to plan: names resolved, every problem collected, then raised once.

Schemas of the sources are handed in: as far as they are known without Spark when validating, and as Spark
reports them when running.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter
from typing import assert_never

from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.call_arguments import bare_dates, sums_of_text
from lineage_service.plan.declarations import declaration_problems
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.expressions import Expression, ExpressionError, SortKey, quote_identifier, sort_key
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    PlanError,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.schema import RESERVED, ColumnError, Schema
from lineage_service.plan.window_frames import WindowFrame, parse_frame
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import (
    AggregateStep,
    BrokenSource,
    BrokenStep,
    DifferenceStep,
    DistinctStep,
    ExplodeStep,
    FilterStep,
    IntersectStep,
    JoinStep,
    LimitStep,
    ProjectStep,
    SortStep,
    Step,
    UnionStep,
    WindowStep,
    WithColumnsStep,
    WorkloadQuery,
)
from lineage_service.spec.name_checks import TOO_DEEP


@dataclass(frozen=True)
class Plan:
    """A workflow with all names resolved.

    workflow: its name · sources: by name · steps: each step's last node · outputs: output name to step name
    keep: steps in between that are datasets too · checked: steps with checks · warnings: what is odd but no error
    workload: the questions that will be asked
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
        """Every node that an output, a kept step or a check needs, inputs before those that read them."""
        found: dict[str, Node] = {}

        def visit(node: Node) -> None:
            if node.id not in found:
                for below in node.inputs:
                    visit(below)
                found[node.id] = node

        for step in (*self.outputs.values(), *self.keep, *sorted(self.checked)):
            visit(self.steps[step])
        return list(found.values())


def build_plan(loaded: LoadedWorkflow, schemas: Mapping[str, Schema]) -> Plan:
    """The plan of a loaded workflow; WorkflowError with everything that is wrong, in file order."""
    if any(problem.message.endswith(TOO_DEEP) for problem in loaded.problems):
        raise WorkflowError(loaded.problems)
    builder = _PlanBuilder(loaded, schemas)
    plan = builder.build()
    silent = loaded.unresolved_positions()
    found = [*loaded.problems, *(problem for problem in builder.problems if problem.position not in silent)]
    if any(problem.severity == "error" for problem in found):
        raise WorkflowError(sorted(dict.fromkeys(found), key=_line_and_column))
    return plan


def _unnamed_hint(name: str, key: str) -> str | None:
    """What to write instead of an expression where columns are listed by their names."""
    if key not in ("by", "columns"):
        return None
    if name == "*":
        return "list the columns; to add some and keep all others, use `op: with_columns`"
    renamed = re.fullmatch(r"(.+?)\s+as\s+(\w+)", name.strip(), re.IGNORECASE)
    if renamed:
        return f"with a name of its own: `{key}: {{{renamed[2]}: {renamed[1]}}}`"
    return f"an expression gets a name: `{key}: {{name: {name}}}`" if re.search(r"[(+*/]", name) else None


def _reads(step: Step | BrokenStep) -> tuple[str, ...]:
    return step.inputs if isinstance(step, BrokenStep) else step.reads


def _line_and_column(problem: Problem) -> tuple[int, int]:
    return (problem.position.line, problem.position.column) if problem.position else (0, 0)


@dataclass
class _PlanBuilder:
    loaded: LoadedWorkflow
    schemas: Mapping[str, Schema]
    problems: list[Problem] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
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

    def _source(self, name: str, schema: Schema) -> Source:
        position, source = self.loaded.marks.key("sources", name), self.loaded.spec.sources[name]
        try:
            return Source(name, name, position, schema, () if isinstance(source, BrokenSource) else source.pii)
        except PlanError as error:
            self.problems += error.problems
            return Source(name, name, position, Schema(known=False))

    def _step_order(self) -> Iterable[int]:
        """Indexes of steps, inputs first; a cycle was reported by the loader and leaves its steps out."""
        steps = self.loaded.spec.steps
        index_of = {step.name: index for index, step in enumerate(steps) if step.name}
        reads = {
            index: {index_of[name] for name in _reads(step) if name in index_of and index_of[name] != index}
            for index, step in enumerate(steps)
        }
        sorter = TopologicalSorter(reads)
        try:
            return list(sorter.static_order())
        except ValueError:
            return []

    def _step(self, index: int) -> None:
        step = self.loaded.spec.steps[index]
        if isinstance(step, BrokenStep):
            if step.name:
                self.nodes[step.name] = Source(step.name, step.name, None, Schema(known=False))
            return
        context = _StepContext(self, index, step)
        try:
            self.nodes[step.name] = context.node()
        except PlanError as error:
            self.problems += error.problems
        if context.failed or step.name not in self.nodes:
            # Later steps are checked as if this one had any column: its own problem is reported once.
            self.nodes[step.name] = Source(step.name, step.name, None, Schema(known=False))

    def _check_output(self, step: str, position: Position) -> None:
        node = self.nodes.get(step)
        if node is None:
            return
        try:
            node.schema.unambiguous_columns()
        except ColumnError as error:
            self.problems.append(Problem(error.message, position, error.hint))


class _StepContext:
    """Builds the node of one step; expressions that cannot be read are noted, and fail the step at its end."""

    def __init__(self, builder: _PlanBuilder, index: int, step: Step) -> None:
        self.builder, self.index, self.step = builder, index, step
        self.position = builder.loaded.marks.at("steps", index)
        self.failed = ("steps", index) in builder.unresolved_parts

    def at(self, *path: str | int) -> Position:
        return self.builder.loaded.marks.at("steps", self.index, *path)

    def problem(self, message: str, position: Position, hint: str | None = None) -> None:
        self.failed = True
        self.builder.problems.append(Problem(message, position, hint))

    def input(self, name: str) -> Node:
        node = self.builder.nodes.get(name)
        # An unknown name was reported by the loader; what reads it is checked as far as it goes.
        return node if node is not None else Source(name, name, None, Schema(known=False))

    def is_unresolved(self, *path: str | int) -> bool:
        """Whether a text has a variable without a value: it is not read, since its author wrote another."""
        return ("steps", self.index, *path) in self.builder.loaded.unresolved

    def expression(self, text: str, *path: str | int) -> Expression | None:
        if self.is_unresolved(*path):
            return None
        try:
            return Expression(text, self.at(*path))
        except ExpressionError as error:
            self.failed = True
            self.builder.problems.append(error.at(self.at(*path)))
            return None

    def scalar(self, text: str, what: str, *path: str | int) -> Expression | None:
        """An expression over one row: neither aggregate nor window function."""
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause or expression.needs_window:
            self.problem(f"{what} has a window function", self.at(*path), "use a step with `op: window`")
        elif expression.has_aggregate:
            self.problem(f"{what} has an aggregate function", self.at(*path), "use a step with `op: aggregate`")
        return expression

    def having(self, text: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is not None and (expression.has_over_clause or expression.needs_window):
            self.problem("`having` has a window function", self.at(*path), "use a step with `op: window`")
        elif expression is not None and expression.has_aggregate:
            self.problem(
                "`having` has an aggregate function",
                self.at(*path),
                "add it to `measures`, and compare the measure by its name",
            )
        return expression

    def named_expressions(
        self, given: Mapping[str, str], key: str, check: Callable[..., Expression | None]
    ) -> tuple[NamedExpression, ...]:
        result = []
        for name, text in given.items():
            self.refuse_reserved(name, key, name)
            expression = check(text, f"'{name}'", key, name)
            if expression is not None:
                result.append(NamedExpression(name, expression))
        return tuple(result)

    def resolve_columns(self, names: Iterable[str], schema: Schema, key: str) -> tuple[NamedExpression, ...]:
        """Plain column names, each at its own place in the file; a result is spelled as written, as in Spark."""
        result = []
        for index, name in enumerate(names):
            try:
                column = schema.resolve(name)
            except ColumnError as error:
                self.problem(error.message, self.at(key, index), _unnamed_hint(name, key) or error.hint)
            else:
                result.append(NamedExpression(name, Expression(quote_identifier(column.name), self.at(key, index))))
        return tuple(result)

    def columns(
        self, given: Mapping[str, str] | Iterable[str], schema: Schema, key: str
    ) -> tuple[NamedExpression, ...]:
        if isinstance(given, Mapping):
            return self.named_expressions(given, key, self.scalar)
        return self.resolve_columns(given, schema, key)

    def names(self, given: Iterable[str], schema: Schema, key: str) -> tuple[str, ...]:
        """Plain column names under the spelling of the schema."""
        return tuple(schema.resolve(named.name).name for named in self.resolve_columns(given, schema, key))

    def refuse_reserved(self, name: str, *path: str | int) -> None:
        if name.lower() == RESERVED:
            self.problem(f"a column cannot be called '{RESERVED}', which is reserved", self.at(*path))

    def order(self, given: Iterable[str], key: str) -> tuple[SortKey, ...]:
        keys = []
        for index, text in enumerate(given):
            if self.is_unresolved(key, index):
                continue
            try:
                parsed = sort_key(text, self.at(key, index))
            except ExpressionError as error:
                self.failed = True
                self.builder.problems.append(error.at(self.at(key, index)))
                continue
            if parsed.expression.has_aggregate or parsed.expression.has_over_clause or parsed.expression.needs_window:
                self.problem("an order has an aggregate or window function", self.at(key, index))
            keys.append(parsed)
        return tuple(keys)

    def frame(self, text: str | None) -> WindowFrame | None:
        if text is None:
            return None
        try:
            return parse_frame(text, self.at("frame"))
        except ExpressionError as error:
            self.failed = True
            self.builder.problems.append(error.at(self.at("frame")))
            return None

    def measure(self, text: str, what: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause or expression.needs_window:
            self.problem(f"measure {what} has a window function", self.at(*path), "use a step with `op: window`")
        elif not expression.has_aggregate:
            self.problem(
                f"measure {what} is no aggregate: '{text}'",
                self.at(*path),
                "wrap it in an aggregate function such as sum, max or count, or add it to `by`",
            )
            return None
        elif expression.nests_aggregates:
            self.problem(
                f"measure {what} has an aggregate function inside another: '{text}'",
                self.at(*path),
                "compute the inner one in an aggregate step of its own, before this one",
            )
            return None
        return expression

    def window_measure(self, text: str, what: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause:
            self.problem(
                f"measure {what} has an OVER of its own",
                self.at(*path),
                "the step's partition_by and order_by are its window; leave OVER away",
            )
        elif not (expression.has_aggregate or expression.needs_window):
            self.problem(
                f"measure {what} is no window function: '{text}'",
                self.at(*path),
                "use an aggregate or a ranking function; plain expressions belong into with_columns",
            )
        return expression

    def node(self) -> Node:
        node = self._node()
        if self.failed:
            raise PlanError([])
        return node

    def _node(self) -> Node:
        step, name, place = self.step, self.step.name, self.position
        match step:
            case FilterStep():
                where = self.scalar(step.where, "a filter's `where`", "where")
                return Filter(name, name, place, self.input(step.input), self.require(where))
            case ProjectStep():
                below = self.input(step.input)
                columns = self.columns(step.columns, below.schema, "columns")
                inner = Project(f"{name}:project" if step.distinct else name, name, place, below, columns)
                return Distinct(name, name, place, inner) if step.distinct else inner
            case WithColumnsStep():
                columns = self.named_expressions(step.columns, "columns", self.scalar)
                return WithColumns(name, name, place, self.input(step.input), columns)
            case AggregateStep():
                return self._aggregate(step)
            case DistinctStep():
                return Distinct(name, name, place, self.input(step.input))
            case JoinStep():
                on = self.scalar(step.on, "a join's `on`", "on") if step.on is not None else None
                left, right = self.input(step.left), self.input(step.right)
                using = self.names(step.using or (), left.schema, "using")
                return Join(name, name, place, left, right, step.how, on, using)
            case UnionStep():
                branches = tuple(self.input(branch) for branch in step.inputs)
                inner_id = f"{name}:union" if step.distinct else name
                union = Union(inner_id, name, place, branches)
                return Distinct(name, name, place, union) if step.distinct else union
            case IntersectStep():
                left, right = self.input(step.left), self.input(step.right)
                return Intersect(name, name, place, left, right, not step.distinct)
            case DifferenceStep():
                left, right = self.input(step.left), self.input(step.right)
                return Difference(name, name, place, left, right, not step.distinct)
            case WindowStep():
                below = self.input(step.input)
                partition_by = self.names(step.partition_by, below.schema, "partition_by")
                order_by = self.order(step.order_by, "order_by")
                measures = self.named_expressions(step.measures, "measures", self.window_measure)
                return Window(name, name, place, below, partition_by, order_by, measures, self.frame(step.frame))
            case SortStep():
                return Sort(name, name, place, self.input(step.input), self.order(step.by, "by"))
            case LimitStep():
                return Limit(name, name, place, self.input(step.input), step.n, self.order(step.by or (), "by"))
            case ExplodeStep():
                alias = step.as_ or step.column
                self.refuse_reserved(alias, "as")
                below = self.input(step.input)
                names = self.names([step.column], below.schema, "column")
                if not names:
                    raise PlanError([])
                (column,) = names
                return Explode(name, name, place, below, column, alias, step.outer)
            case _:
                assert_never(step)

    def require(self, expression: Expression | None) -> Expression:
        if expression is None:
            raise PlanError([])
        return expression

    def _aggregate(self, step: AggregateStep) -> Node:
        name, below = step.name, self.input(step.input)
        keys = self.columns(step.by, below.schema, "by")
        measures = self.named_expressions(step.measures, "measures", self.measure)
        having = self.having(step.having, "having") if step.having is not None else None
        inner_id = name if having is None else f"{name}:aggregate"
        inner = Aggregate(inner_id, name, self.position, below, keys, measures)
        return inner if having is None else Filter(name, name, self.position, inner, having)
