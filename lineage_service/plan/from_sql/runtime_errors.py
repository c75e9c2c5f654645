"""Errors that a compiled query raises while it runs, as Spark does: their texts, and how they are recognised; and the
names of columns in Spark's own errors, which are those of the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lineage_service.errors import LineageError, Position, RunError, WorkflowError
from lineage_service.plan.nodes import Node, Project

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
    """The names that queries give to columns of the plan: of a table's column its name there, of an entry of the select
    list its name in the result. `nodes` are inputs before their readers."""
    shown: dict[str, str] = {}
    for node in nodes:
        if not isinstance(node, Project):
            continue
        for named in node.columns:
            text = named.expression.text
            if node.id == node.step and _is_internal(text):
                shown[text] = named.name
            elif node.id != node.step and _is_internal(named.name):
                known = shown.get(text) or (text[1:-1] if re.fullmatch(r"`[^`]+`", text) else None)
                if known is not None:
                    shown[named.name] = known
    return shown


def _is_internal(name: str) -> bool:
    return re.fullmatch(_INTERNAL, name) is not None


def _with_shown(message: str, shown: Mapping[str, str]) -> str:
    return re.sub(_INTERNAL, lambda match: shown.get(match[0], match[0]), message)


_INTERNAL = r"\b[a-z][a-z0-9_]*__\w+"
