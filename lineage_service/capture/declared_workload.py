"""The declared questions of a workflow file in the form that capture needs: the kind of each question, and which of its
expressions DuckDB may evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.capture.workload import DeclaredQuestion, Direction, DuckDbExpressions, Kind
from lineage_service.equivalence.portable_predicates import translate_source_predicate
from lineage_service.equivalence.portable_values import translate_source_value
from lineage_service.plan.expressions import Expression, quote_identifier
from lineage_service.plan.mergeable_measures import parse_measure
from lineage_service.plan.nodes import Source
from lineage_service.spec.models import WorkloadQuery


def declared_questions(
    queries: Sequence[WorkloadQuery], outputs: Mapping[str, str], sources: Mapping[str, Source]
) -> tuple[DeclaredQuestion, ...]:
    """The declared questions of a workflow. `outputs` maps each output to its step."""

    def space(name: str) -> Space:
        return source_space(name) if name in sources else step_space(outputs.get(name, name))

    found = []
    for query in queries:
        direction: Direction = "backward" if query.backward is not None else "forward"
        near, far = space(query.backward or query.forward or ""), tuple(space(name) for name in query.to)
        by = (
            query.by.items() if isinstance(query.by, Mapping) else [(name, quote_identifier(name)) for name in query.by]
        )
        measures = tuple(parse_measure(name, text) for name, text in query.measures.items())
        each = DeclaredQuestion(query.name, question_kind(query), direction, near, far, query.where, query.parameters,
                        query.columns or None, tuple(by), measures)  # fmt: skip
        source = sources.get(query.to[0])
        found.append(each if source is None else replace(each, alike=_duckdb_translation(each, source)))
    return tuple(found)


def _duckdb_translation(question: DeclaredQuestion, source: Source) -> DuckDbExpressions | None:
    """The question's expressions in DuckDB's SQL; None if one of them might have another meaning there."""
    where = None if question.where is None else translate_source_predicate(source, Expression(question.where))
    if (where is None) != (question.where is None):
        return None
    values = [translate_source_value(source, Expression(text)) for text in question.values]
    return None if None in values else DuckDbExpressions(where, tuple(text for text in values if text is not None))


def question_kind(query: WorkloadQuery) -> Kind:
    if query.semantics != "which":
        return "witnesses"
    if query.measures:
        return "groups"
    if query.parameters or query.columns:
        return "rows"
    return "selection" if query.where is not None else "pairs"
