"""Values in texts that users wrote: workflow files, variables, saved queries. They are replaced where they stand.

A text that a personal column is compared with for equality is replaced by one that nobody has: the comparison goes on
to mean what it meant, now that nobody has the old value either. Used for anything else, it is replaced too, and the run
is no longer computed anew (spec/redaction_markers.py). Names, keys and paths are left alone: they are the workflow's
own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from lineage_catalog.erasures import replace_text, user_texts
from sqlalchemy import Connection

from lineage_service.audit.erasure.identifying_values import IdentifyingValues, is_searchable
from lineage_service.spec.redaction_markers import NUMBER, SAFE, UNSAFE

# What a workflow's parts are called, and where they are: no text of a user's about anybody.
STRUCTURE = frozenset(
    {
        *("name", "op", "input", "inputs", "left", "right", "using", "how", "as", "column", "step", "path", "output"),
        *("format", "options", "schema", "rename", "subject", "pii", "keep", "capture", "to", "backward", "forward"),
        *("semantics", "partition_by", "distinct", "severity", "not_null", "unique", "parameters", "run_id", "folder"),
        *("workflow", "status", "strategy", "on_erased", "on_erasure", "snapshot", "n", "version"),
    }
)
EXPRESSIONS = frozenset({"where", "on", "having", "columns", "measures", "by", "order_by", "frame", "query", "checks"})
VARIABLES = "vars"  # whatever they are called
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"")


def redact(connection: Connection, telling: IdentifyingValues) -> int:
    """Replaces values in all texts of the catalog; how many texts that were."""
    count = 0
    for place, text in list(user_texts(connection)):
        new = redact_text(text, telling, (VARIABLES,) if place.column == "variables" else ())
        if new != text:
            replace_text(connection, place, new)
            count += 1
    return count


def redact_text(text: str, telling: IdentifyingValues, path: tuple[str, ...] = ()) -> str:
    """A text of the catalog, JSON or prose, with the person's values replaced; `path` is where the JSON stands."""
    try:
        body = json.loads(text)
    except ValueError:
        return _redact_prose(text, telling)
    new = _redact_json(body, path, telling)
    return text if new == body else json.dumps(new, ensure_ascii=False)


def _redact_json(value: Any, path: tuple[str, ...], telling: IdentifyingValues) -> Any:
    if isinstance(value, dict):
        return {key: _redact_json(each, (*path, key), telling) for key, each in value.items()}
    if isinstance(value, list):
        return [_redact_json(each, path, telling) for each in value]
    if not isinstance(value, str) or _is_structure(path):
        return value
    if any(key in EXPRESSIONS for key in path):
        return _redact_expression(value, telling)
    return _redact_prose(value, telling)


def _is_structure(path: Sequence[str]) -> bool:
    """Whether a leaf names a part: its key does, and no expression is above it (a column may be called `name`)."""
    if VARIABLES in path:
        return False
    above = next((number for number, key in enumerate(path) if key in EXPRESSIONS), len(path))
    return any(key in STRUCTURE for key in path[: above + 1][-1:]) or any(key in STRUCTURE for key in path[:above])


def _redact_prose(text: str, telling: IdentifyingValues) -> str:
    for value in _longest_first(telling.texts):
        text = text.replace(value, SAFE + _digest(value))
    return SAFE + _digest(text) if text in telling.numbers and is_searchable(text) else text


def _redact_expression(text: str, telling: IdentifyingValues) -> str:
    names = "|".join(re.escape(name) for name in sorted(telling.columns, key=len, reverse=True))
    if names:
        column = rf"(?<![\w`])`?(?:{names})`?"
        for value in _longest_first(telling.texts):
            spelled = re.escape(value.replace("'", "''"))
            text = _replace_compared_value(text, column, rf"['\"]{spelled}['\"]", f"'{SAFE}{_digest(value)}'")
        for value in sorted(telling.numbers):
            number = rf"(?<![\w.\-'])'?{re.escape(value)}'?(?![\w.'])"
            text = _replace_compared_value(text, column, number, f"{NUMBER}{int(_digest(value), 16) % 10**16:016d}")

    def literal(found: re.Match[str]) -> str:
        inside = found[0]
        for value in _longest_first(telling.texts):
            for spelled in dict.fromkeys((value, value.replace("'", "''"))):
                inside = inside.replace(spelled, UNSAFE + _digest(value))
        return inside

    return _LITERAL.sub(literal, text)


def _replace_compared_value(text: str, column: str, value: str, new: str) -> str:
    """The value replaced where a personal column is compared with it for equality."""
    equal = r"\s*(?:(?<![<>!=])=(?!=)|<>|!=|<=>|==)\s*"
    end = r"(?=\s*(?:\Z|[),]|AND\b|OR\b|THEN\b|GROUP\b|ORDER\b|HAVING\b|LIMIT\b|QUALIFY\b|UNION\b))"
    begin = r"(\A|[(,]|\b(?:AND|OR|NOT|WHEN|WHERE|ON|HAVING)\b)(\s*)"
    flags = re.IGNORECASE
    text = re.sub(rf"({begin}(?:\w+\.)?{column}{equal}){value}{end}", rf"\g<1>{new}", text, flags=flags)
    text = re.sub(rf"{begin}{value}({equal}(?:\w+\.)?{column}){end}", rf"\g<1>\g<2>{new}\g<3>", text, flags=flags)
    listed = rf"({begin}(?:\w+\.)?{column}\s+(?:NOT\s+)?IN\s*\([^()]*?){value}(?=[^()]*\))"
    while (again := re.sub(listed, rf"\g<1>{new}", text, flags=flags)) != text:
        text = again
    return text


def _longest_first(values: set[str]) -> list[str]:
    return sorted((each for each in values if is_searchable(each)), key=len, reverse=True)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]
