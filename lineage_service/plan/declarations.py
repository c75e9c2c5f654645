"""Checks declarations of a workflow beside its steps: subjects, personal data, checks, workload. Their columns must
exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from lineage_service.errors import Position, Problem
from lineage_service.plan.expressions import Expression, ExpressionError
from lineage_service.plan.mergeable_measures import FUNCTIONS, NotMergeable, parse_measure
from lineage_service.plan.nodes import Node
from lineage_service.plan.schema import ColumnError, Schema
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenOutput, BrokenSource, BrokenStep, WorkloadQuery
from lineage_service.spec.step_models import CheckSpec


def declaration_problems(loaded: LoadedWorkflow, nodes: Mapping[str, Node]) -> list[Problem]:
    """Declared columns that the dataset does not have, and predicates that cannot be parsed."""
    return [*_sources(loaded, nodes), *_checks(loaded, nodes), *_workload(loaded, nodes)]


def _sources(loaded: LoadedWorkflow, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    for name, source in loaded.spec.sources.items():
        if isinstance(source, BrokenSource) or name not in nodes:
            continue
        schema = nodes[name].schema
        for kind, column in source.subject.items():
            yield from _column(column, schema, loaded.marks.at("sources", name, "subject", kind))
        for index, column in enumerate(source.pii):
            yield from _column(column, schema, loaded.marks.at("sources", name, "pii", index))


def _checks(loaded: LoadedWorkflow, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    for name, output in loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            node = nodes.get(output.step or name)
            for index, check in enumerate(output.checks):
                yield from _check(check, node, partial(loaded.marks.at, "outputs", name, "checks", index))
    for number, step in enumerate(loaded.spec.steps):
        if not isinstance(step, BrokenStep):
            for index, check in enumerate(step.checks):
                at = partial(loaded.marks.at, "steps", number, "checks", index)
                yield from _check(check, nodes.get(step.name), at)


def _check(check: CheckSpec, node: Node | None, at: Callable[..., Position]) -> Iterator[Problem]:
    if node is None:
        return
    for key, columns in (("not_null", check.not_null), ("unique", check.unique)):
        for index, column in enumerate(columns or ()):
            yield from _column(column, node.schema, at(key, index))
    if check.where is not None:
        yield from _predicate(check.where, node.schema, at("where"))


def _workload(loaded: LoadedWorkflow, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    for index, query in enumerate(loaded.spec.lineage.workload):
        for target in query.to:
            if target in nodes:
                yield from _query(query, nodes[target].schema, loaded, index)


def _query(query: WorkloadQuery, schema: Schema, loaded: LoadedWorkflow, index: int) -> Iterator[Problem]:
    def at(*path: str | int) -> Position:
        return loaded.marks.at("lineage", "workload", index, *path)

    if query.where is not None:
        yield from _precomputation_problems(query.where, schema, at("where"))
    for key, columns in (("parameters", query.parameters), ("columns", query.columns)):
        for number, column in enumerate(columns):
            yield from _column(column, schema, at(key, number))
    if isinstance(query.by, Mapping):
        for name, text in query.by.items():
            yield from _precomputation_problems(text, schema, at("by", name))
    else:
        for number, column in enumerate(query.by):
            yield from _column(column, schema, at("by", number))
    for name, text in query.measures.items():
        yield from _precomputation_problems(text, schema, at("measures", name), aggregates=True)
        yield from _measure(name, text, at("measures", name))


def _measure(name: str, text: str, position: Position) -> Iterator[Problem]:
    """A measure must be mergeable from parts, because a question may start from several rows."""
    try:
        parse_measure(name, text)
    except NotMergeable:
        message = f"measure '{name}' cannot be prepared: '{text}'; measures here are one of {', '.join(FUNCTIONS)}"
        yield Problem(message, position, "count(DISTINCT …) is possible too; compute others from rows, by parameters")
    except ExpressionError:
        return


def _column(name: str, schema: Schema, position: Position) -> Iterator[Problem]:
    try:
        schema.resolve(name)
    except ColumnError as error:
        yield Problem(error.message, position, error.hint)


def _precomputation_problems(
    text: str, schema: Schema, position: Position, *, aggregates: bool = False
) -> Iterator[Problem]:
    """An expression that is computed in advance must be repeatable."""
    found = list(_predicate(text, schema, position, aggregates=aggregates))
    if not found and not Expression(text, position).repeatable:
        found.append(Problem(f"'{text}' may give another value when it is computed again: not prepared", position))
    yield from found


def _predicate(text: str, schema: Schema, position: Position, *, aggregates: bool = False) -> Iterator[Problem]:
    try:
        expression = Expression(text, position)
    except ExpressionError as error:
        yield error.at(position)
        return
    if expression.has_over_clause or expression.needs_window or (expression.has_aggregate and not aggregates):
        yield Problem("a predicate or key looks at one row: aggregates and windows are not allowed", position)
    if aggregates and not expression.has_aggregate:
        yield Problem(f"measure is no aggregate: '{text}'", position)
    for ref in expression.columns:
        yield from _column(ref.parts[0], schema, position)
