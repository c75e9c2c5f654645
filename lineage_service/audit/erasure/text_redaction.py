"""Redacts values in user-written texts: workflow files, variables, saved queries.

A text that is compared with a personal column for equality is replaced by one that no person has. The comparison keeps
its meaning, because no row has the old value either. In any other use it is replaced too, and the run is no longer
recomputed (spec/redaction_markers.py). Names, keys and paths of the workflow are left unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lineage_catalog.erasures import replace_text, user_texts
from sqlalchemy import Connection

from lineage_service.audit.erasure.expression_redaction import digest, names_given, redact_expression
from lineage_service.audit.erasure.identifying_values import IdentifyingValues, is_searchable
from lineage_service.audit.erasure.names_in_queries import names_in_query
from lineage_service.spec.redaction_markers import SAFE

# Keys of names and locations of workflow parts, which do not describe persons.
STRUCTURE = frozenset(
    {
        *("name", "op", "input", "inputs", "left", "right", "using", "how", "as", "column", "step", "path", "output"),
        "file",
        *("format", "options", "schema", "rename", "subject", "pii", "keep", "capture", "to", "backward", "forward"),
        *("semantics", "partition_by", "distinct", "severity", "not_null", "unique", "parameters", "run_id", "folder"),
        *("workflow", "status", "strategy", "on_erased", "on_erasure", "snapshot", "n", "version"),
    }
)
EXPRESSIONS = frozenset({"where", "on", "having", "columns", "measures", "by", "order_by", "frame", "query", "checks"})
VARIABLES = "vars"  # whatever they are called
SAVED_QUERY = ("query",)  # where the SQL of DuckDB is in the content of a run; other expressions are Spark's


def redact(connection: Connection, identifying: IdentifyingValues) -> int:
    """Redacts values in all texts of the catalog and returns the number of texts changed."""
    count = 0
    for place, text in list(user_texts(connection)):
        new = redact_text(text, identifying, (VARIABLES,) if place.column == "variables" else ())
        if new != text:
            replace_text(connection, place, new)
            count += 1
    return count


def redact_text(text: str, identifying: IdentifyingValues, path: tuple[str, ...] = ()) -> str:
    """A text of the catalog, JSON or plain text, with the person's values replaced. `path` is its position within the
    JSON.
    """
    try:
        body = json.loads(text)
    except ValueError:
        return _redact_prose(text, identifying)
    new = _redact_json(body, path, identifying, frozenset(_names_given(body)))
    return text if new == body else json.dumps(new, ensure_ascii=False)


def _redact_json(value: Any, path: tuple[str, ...], identifying: IdentifyingValues, also_called: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: _redact_json(each, (*path, key), identifying, also_called) for key, each in value.items()}
    if isinstance(value, list):
        return [_redact_json(each, path, identifying, also_called) for each in value]
    if not isinstance(value, str) or _is_structure(path):
        return value
    if any(key in EXPRESSIONS for key in path):
        return redact_expression(value, identifying, also_called, is_duckdb=path == SAVED_QUERY)
    return _redact_prose(value, identifying)


def _names_given(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Names that a workflow, or a query, gives to columns that it computes or renames: what is in them is not known."""
    if isinstance(value, dict):
        for key, each in value.items():
            if path and path[-1] in ("columns", "measures", "by") and each != key:
                yield key.lower()
            if path and path[-1] == "rename" and isinstance(each, str):
                yield each.lower()
            yield from _names_given(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from _names_given(each, path)
    elif isinstance(value, str) and path and path[-1] in ("query", "as"):
        if path[-1] == "as":
            yield value.lower()
        else:
            yield from names_given(value, is_duckdb=path == SAVED_QUERY)
            yield from names_in_query(value, is_duckdb=path == SAVED_QUERY)


def _is_structure(path: Sequence[str]) -> bool:
    """Whether a leaf is the name of a workflow part: its key says so, and no expression encloses it (a column may be
    called `name`).
    """
    if VARIABLES in path:
        return False
    above = next((number for number, key in enumerate(path) if key in EXPRESSIONS), len(path))
    return any(key in STRUCTURE for key in path[: above + 1][-1:]) or any(key in STRUCTURE for key in path[:above])


def _redact_prose(text: str, identifying: IdentifyingValues) -> str:
    for value in _longest_first(identifying.texts):
        text = text.replace(value, SAFE + digest(value))
    return SAFE + digest(text) if text in identifying.numbers and is_searchable(text) else text


def _longest_first(values: set[str]) -> list[str]:
    return sorted((each for each in values if is_searchable(each)), key=len, reverse=True)
