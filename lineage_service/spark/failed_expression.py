"""Determines which expression of the workflow a Spark job failed in.

A job fails while an output is written, often several steps after the failing expression. Spark's error quotes the
expression, which is searched for among the expressions of all steps below the failing one. Literals of the quoted
expression and everything that Spark reports about values are left out, because they may be personal data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from lineage_service.errors import LineageError, Position, Problem, RunError
from lineage_service.plan.build import Plan
from lineage_service.plan.expressions import Expression, ExpressionError, shorten_text, with_stars_expanded
from lineage_service.plan.from_sql.runtime_errors import recognised_error
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
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.window_calls import add_over_clauses
from lineage_service.spark.faults import data_error_reason, error_condition, is_spark_error, sql_state

if TYPE_CHECKING:
    from lineage_service.spark.checks import RowCheck

_MOST = 5  # so many candidates are named


@dataclass(frozen=True)
class WorkflowExpression:
    """An expression of the workflow: its step, the part of the step, and the node that evaluates it.

    texts: patterns of the texts that Spark may quote for the whole expression
    expression: None for implicit casts, such as those in a union
    """

    step: str
    part: str
    node: str
    position: Position | None
    expression: Expression | None = None
    texts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"step '{self.step}', {self.part}" if self.part else f"step '{self.step}'"


@dataclass(frozen=True)
class Quotation:
    """What Spark quotes: the part of an expression that failed, and the whole expression if it is reported."""

    fragment: str
    whole: str | None


@contextmanager
def locate_failed_expression(plan: Plan, checks: Sequence[RowCheck] = ()) -> Iterator[None]:
    """Adds the step and the expression to errors of jobs inside the block, if Spark's error determines them."""
    try:
        yield
    except RunError as error:
        located = _error_with_location(error, plan, checks)
        if located is None:
            raise
        raise located from error.__cause__


def _error_with_location(error: RunError, plan: Plan, checks: Sequence[RowCheck]) -> LineageError | None:
    cause = error.__cause__
    if not isinstance(cause, Exception) or not is_spark_error(cause) or len(error.problems) != 1:
        return None
    condition = error_condition(cause)
    quoted = _quotations(cause)
    if recognised_error(str(cause)) is not None:
        return None
    if not condition or not (quoted or is_data_error(cause) or condition.partition(".")[0] in _FUNCTIONS):
        return None
    (problem,) = error.problems
    while_writing = problem.message.partition(" failed while running")[0]
    below = _nodes_below(plan, problem.position)
    places = [
        place
        for place in [*_workflow_expressions(plan), *_check_expressions(checks)]
        if below is None or place.node in below
    ]
    found = _quoted_expressions(places, quoted) if quoted else _suspects(places, condition, cause)
    if not found:
        return None
    fragment = quoted[0].fragment if quoted else ""
    kind, hint = data_error_reason(cause)
    failure = f"failed while running: {kind}{_describe_fragment(fragment, found)}"
    if len(found) == 1:
        (place,) = found
        message = f"{place} {failure}"
        if f"'{place.step}'" not in while_writing:
            message += f" (while writing {while_writing})"
        return RunError(Problem(message, place.position or problem.position, hint))
    named = "; ".join(f"{place}" + (f" ({place.position})" if place.position else "") for place in found[:_MOST])
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    message = f"{while_writing} {failure}. Expressions that may be the one: {named}{more}"
    return RunError(Problem(message, problem.position, hint))


def is_data_error(error: Exception) -> bool:
    """Whether an error is caused by values of the data and not by how the job was run: SQL's class 22, or an error that
    the workflow raises.
    """
    return sql_state(error).startswith(("22", "23", "P0"))


def _describe_fragment(fragment: str, expressions: Sequence[WorkflowExpression]) -> str:
    """The failed part of the expression, and the columns that it reads."""
    if not fragment:
        texts = {place.expression.text for place in expressions if place.expression is not None}
        fragment = texts.pop() if len(texts) == 1 else ""
    if not fragment:
        return ""
    try:
        expression = Expression(fragment)
        columns = list(dict.fromkeys(ref.parts[-1] for ref in expression.columns))
        shown = _without_literals(expression)
    except ExpressionError:
        return ""
    of = f", which reads column{'s' if len(columns) > 1 else ''} {', '.join(map(repr, columns))}" if columns else ""
    return f"; in `{shorten_text(shown, 120)}`{of}"


def _without_literals(expression: Expression) -> str:
    """The text with '…' in place of each text literal, which may contain the value of a variable."""
    pieces, end = [], 0
    for token in expression.tokens:
        if token.token_type.name.endswith("STRING"):
            pieces += [expression.text[end : token.start], "'…'"]
            end = token.end + 1
    return "".join([*pieces, expression.text[end:]])


# --- the expressions of a workflow ----------------------------------------------------------------------------------


def _workflow_expressions(plan: Plan) -> Iterator[WorkflowExpression]:
    for node in plan.nodes():
        for part, expression in _node_expressions(node):
            yield WorkflowExpression(
                node.step, part, node.id, expression.position, expression, tuple(_text_patterns(node, expression))
            )
        if isinstance(node, Union | Intersect | Difference):
            columns = ", ".join(f"'{name}'" for name in _of_unlike_types(node.inputs, node.schema.names))
            if columns:
                yield WorkflowExpression(node.step, f"columns of different types: {columns}", node.id, node.position)
        if isinstance(node, Join) and node.using:
            columns = ", ".join(f"'{name}'" for name in _of_unlike_types(node.inputs, node.using))
            if columns:
                yield WorkflowExpression(
                    node.step, f"`using` columns of different types: {columns}", node.id, node.position
                )


def _node_expressions(node: Node) -> Iterator[tuple[str, Expression]]:
    """The expressions of a node, each with the name of its part of the step."""
    match node:
        case Filter():
            having = isinstance(node.input, Aggregate) and node.input.step == node.step
            yield "`having`" if having else "`where`", node.where
        case Project() | WithColumns():
            yield from ((f"column '{named.name}'", named.expression) for named in node.columns)
        case Aggregate():
            yield from ((f"key '{named.name}'", named.expression) for named in node.keys)
            yield from ((f"measure '{named.name}'", named.expression) for named in node.measures)
        case Join():
            if node.on is not None:
                yield "`on`", node.on
        case Window():
            yield from (("`order_by`", key.expression) for key in node.order_by)
            yield from ((f"measure '{named.name}'", named.expression) for named in node.measures)
        case Sort() | Limit():
            yield from (("`by`", key.expression) for key in node.by)
        case Source() | Distinct() | Union() | Intersect() | Difference() | Explode():
            return
        case _:
            assert_never(node)


def _text_patterns(node: Node, expression: Expression) -> Iterator[str]:
    """Patterns of the texts that Spark may quote for a whole expression."""
    names = node.inputs[0].schema.names if len(node.inputs) == 1 else ()
    expanded = with_stars_expanded(expression, names) if names else expression.text
    yield re.escape(_collapse_whitespace(expanded))
    if isinstance(node, Window):
        yield ".*".join(
            re.escape(piece) for piece in _collapse_whitespace(add_over_clauses(expression, "\0")).split("\0")
        )


def _of_unlike_types(inputs: Sequence[Node], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        columns = [node.schema.find(name) for node in inputs]
        types = {column.type for column in columns if column is not None}
        if len(types) > 1 or None in types:
            yield name


def _check_expressions(checks: Sequence[RowCheck]) -> Iterator[WorkflowExpression]:
    for check in checks:
        where = check.spec.where
        if where is not None:
            of = "" if check.target == check.step else f" of '{check.target}'"
            with suppress(ExpressionError):
                expression = Expression(where, check.position)
                texts = (re.escape(_collapse_whitespace(where)),)
                yield WorkflowExpression(check.step, f"a check{of}", check.step, check.position, expression, texts)


def _nodes_below(plan: Plan, position: Position | None) -> set[str] | None:
    """The ids of the failing step's nodes and those below; None if it is unknown which step failed."""
    start = [node for node in plan.nodes() if position is not None and node.position == position]
    found: set[str] = set()
    while start:
        node = start.pop()
        if node.id not in found:
            found.add(node.id)
            start += node.inputs
    return found or None


# --- what Spark quotes ----------------------------------------------------------------------------------------------


def _quotations(error: Exception) -> list[Quotation]:
    contexts: list[Quotation] = []
    with suppress(Exception):  # whatever a client of Spark's lacks, the message itself is read below
        for context in error.getQueryContext():  # type: ignore[attr-defined]
            fragment = str(context.fragment() or "")
            if fragment:
                contexts.append(Quotation(fragment, _whole_expression(str(context.summary()))))
    if contexts:
        return contexts
    text = str(error)
    found = re.search(r"== SQL \(line \d+, position (\d+)\) ==\n([^\n]*)\n( *\^+)", text)
    if found is None:
        return []
    marks = found[3]
    return [Quotation(found[2][len(marks) - len(marks.lstrip()) : len(marks)], _collapse_whitespace(found[2]))]


def _whole_expression(summary: str) -> str | None:
    """The expression that an error summary shows, if it is on one line and not truncated."""
    lines = [line for line in summary.splitlines() if line.strip()]
    if len(lines) != 3 or lines[1].startswith("...") or lines[1].endswith("..."):
        return None
    return _collapse_whitespace(lines[1])


def _quoted_expressions(places: Sequence[WorkflowExpression], quoted: Sequence[Quotation]) -> list[WorkflowExpression]:
    for quotation in quoted:
        whole, fragment = quotation.whole, _collapse_whitespace(quotation.fragment)
        exact = [place for place in places if whole and any(re.fullmatch(text, whole) for text in place.texts)]
        if exact:
            return exact
        holding = [
            place
            for place in places
            if place.expression is not None and fragment in _collapse_whitespace(place.expression.text)
        ]
        if holding:
            return holding
    return []


# Functions that fail without a quotation, by Spark's name for the error.
_FUNCTIONS = {
    "CANNOT_PARSE_TIMESTAMP": r"(try_)?to_(date|timestamp\w*|unix_timestamp|time)|unix_timestamp|date|timestamp",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION": r"date_format|(try_)?to_(date|timestamp\w*|unix_timestamp)|unix_timestamp"
    r"|from_unixtime|from_(json|csv)|to_(json|csv)",
    "ARITHMETIC_OVERFLOW": r"sum|avg|mean|abs|negative|positive|factorial|sequence|round|bround|ceil\w*|floor",
    "NUMERIC_VALUE_OUT_OF_RANGE": r"sum|avg|mean|round|bround|to_number|ceil\w*|floor",
    "DATETIME_FIELD_OUT_OF_BOUNDS": r"make_\w+|date_\w+|add_months",
    "DATETIME_OVERFLOW": r"date\w*|timestamp\w*|add_months|make_\w+",
    "DUPLICATED_MAP_KEY": r"map\w*|str_to_map|transform_keys",
    "USER_RAISED_EXCEPTION": r"raise_error|assert_true",
    "MALFORMED_RECORD_IN_PARSING": r"from_(json|csv|xml)|parse_json",
    "INVALID_FORMAT": r"to_number|to_char|to_varchar|to_binary",
    "CANNOT_DECODE_URL": r"url_decode|parse_url",
    "CONVERSION_INVALID_INPUT": r"to_binary|unhex|unbase64|conv",
}


def _suspects(places: Sequence[WorkflowExpression], condition: str, error: Exception) -> list[WorkflowExpression]:
    """The expressions that may have caused the error if Spark quotes none, by the functions that they call."""
    kind = condition.partition(".")[0]
    if kind in ("CAST_INVALID_INPUT", "CAST_OVERFLOW"):
        return [place for place in places if place.expression is None]
    pattern = _FUNCTIONS.get(kind)
    with suppress(Exception):
        named = re.fullmatch(r"`(\w+)`", error.getMessageParameters()["functionName"])  # type: ignore[attr-defined]
        pattern = named[1] if named else pattern
    if pattern is None:
        return []
    return [
        place
        for place in places
        if place.expression is not None and any(re.fullmatch(pattern, name) for name in place.expression.function_names)
    ]


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
