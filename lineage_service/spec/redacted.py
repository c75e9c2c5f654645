"""Texts in which values of erased persons were replaced by ones that nobody has.

A comparison for equality with such a value means what it meant, now that nobody has the old one either. Anything else
that is done with it does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_VALUE = r"(?:'erased-[0-9a-f]{16}'|-88[0-9]{16})"
_TOKEN = re.compile(r"erased-[0-9a-f]{16}|-88[0-9]{16}")
_COMPARED = re.compile(
    rf"(?:(?<![<>!=])=|<>|!=|<=>)\s*{_VALUE}(?=\s*(?:\Z|[),]|AND\b|OR\b|THEN\b|GROUP\b|ORDER\b|HAVING\b|LIMIT\b))"
    rf"|(?:\A|[(,]|\bAND\b|\bOR\b|\bNOT\b|\bWHEN\b|\bWHERE\b|\bON\b)\s*{_VALUE}\s*(?:=(?!=)|<>|!=|<=>)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\bIN\s*\([^()]*\)", re.IGNORECASE)


def is_computable(content: str) -> bool:
    """Whether a run's workflow, or saved query, as JSON means what it meant: values that were replaced in it are only
    compared for equality."""
    if not _TOKEN.search(content):
        return True
    body = json.loads(content)
    # Variables stand in the expressions themselves; descriptions and paths compute nothing.
    return all(_means_the_same(text) for key in ("steps", "query") for text in _texts(body.get(key)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _means_the_same(text: str) -> bool:
    rest = _COMPARED.sub("", _LISTED.sub("", text))
    return not _TOKEN.search(rest)
