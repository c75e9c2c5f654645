"""Errors that a compiled query raises while it runs, as Spark does: their texts, and how they are recognised; and the
names of columns in Spark's own errors, which are those of the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lineage_service.errors import LineageError, Position, RunError, WorkflowError
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Aggregate, NamedExpression, Node, Project, Window, WithColumns

_MORE_THAN_ONE = "more than one row returned by a subquery used as an expression"


def more_than_one_row(position: Position) -> str:
    """Spark SQL that ends the run."""
    return f"raise_error('{_MORE_THAN_ONE}: line {position.line}, column {position.column}')"


def recognised_error(text: str) -> str | None:
    """What an error of Spark says, where a compiled query has raised it; None for any other."""
    found = re.search(re.escape(_MORE_THAN_ONE) + r": line \d+, column \d+", text)
    return None if found is None else found[0]


@contextmanager
def with_names_of_queries(nodes: Iterable[Node]) -> Iterator[None]:
    """Lets errors inside the block name columns as the queries do, and not as the plan does."""
    try:
        yield
    except (WorkflowError, RunError) as error:
        shown = shown_names(nodes)
        problems = [replace(each, message=_with_shown(each.message, shown)) for each in error.problems]
        if problems == list(error.problems):
            raise
        translated: LineageError = type(error)(problems)
        raise translated.with_traceback(error.__traceback__) from error.__cause__


def shown_names(nodes: Iterable[Node]) -> dict[str, str]:
    """What queries call the columns of the plan: a table's column as the table does, an entry of the select list by its
    name in the result, and what is computed on the way by its expression. `nodes` are inputs before their readers.
    """
    every = list(nodes)
    shown: dict[str, str] = {}
    queries = {node.step for node in every if node.id == node.step and _names_a_result(node)}
    for node in every:
        if node.step not in queries:
            continue
        for named in _named_expressions(node):
            text = named.expression.text
            if node.id == node.step and _is_internal(text):
                shown[text] = named.name
            elif node.id != node.step and _is_internal(named.name):
                over = " OVER (…)" if isinstance(node, Window) else ""
                shown[named.name] = _shown_expression(named, shown) + over
        known = {name for below in node.inputs for name in below.schema.names}
        for name in node.schema.names:
            if node.id != node.step and _is_internal(name) and name not in known:  # of rows that are repeated
                shown.setdefault(name, name.partition("__")[0].replace("_", " "))
    return shown


def _names_a_result(node: Node) -> bool:
    """Whether a node is the last one of an sql step."""
    return isinstance(node, Project) and all(_is_internal(named.expression.text) for named in node.columns)


def _named_expressions(node: Node) -> tuple[NamedExpression, ...]:
    if isinstance(node, Project | WithColumns):
        return node.columns
    if isinstance(node, Aggregate):
        return node.keys + node.measures
    return node.measures if isinstance(node, Window) else ()


def _shown_expression(named: NamedExpression, shown: Mapping[str, str]) -> str:
    """What a column of the plan stands for."""
    text = named.expression.text
    if re.fullmatch(r"`[^`]+`", text):
        return text[1:-1]
    kind, _, rest = named.name.partition("__")
    if kind in _OF_A_NAME or _MORE_THAN_ONE in text:
        return re.sub(r"_\d+$", "", rest)
    return shown.get(text) or _with_shown(_without_texts(named.expression), shown)


def _without_texts(expression: Expression) -> str:
    """An expression with … for each text, which may be a value of a person."""
    pieces, end = [], 0
    for token in expression.tokens:
        if token.token_type.name.endswith("STRING"):
            pieces += [expression.text[end : token.start], "'…'"]
            end = token.end + 1
    return "".join([*pieces, expression.text[end:]])


def _is_internal(name: str) -> bool:
    return re.fullmatch(_INTERNAL, name) is not None


def _with_shown(message: str, shown: Mapping[str, str]) -> str:
    """Names in quotes as they are; inside of an expression, what is no name or call gets parentheses."""
    quoted = re.sub(rf"'({_INTERNAL})'", lambda match: f"'{shown.get(match[1], match[1])}'", message)
    return re.sub(_INTERNAL, lambda match: _as_operand(shown.get(match[0], match[0])), quoted)


def _as_operand(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|\w*\([^()]*\)(?: OVER \(…\))?", text) or text.startswith("'") else f"({text})"


_INTERNAL = r"\b[a-z][a-z0-9_]*__\w+"
# Names behind these words are those of the query.
_OF_A_NAME = frozenset({"out", "each", "outer"})
