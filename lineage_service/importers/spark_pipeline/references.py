"""References to settings in the queries of a pipeline, `${key}`, as Spark substitutes them before it reads a query.

Only what `configuration` of the pipeline sets is there at that time: `SET` statements come too late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lineage_service.spec.sql_parsing import tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

_REFERENCE = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?(?P<key>[^{}]*)\}")


def with_settings(query: str, settings: Mapping[str, str], variables: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """Returns the query with its references replaced, and the references that the settings do not define. Comments are
    not changed.

    In a string literal, a reference becomes a variable of the workflow, which is added to `variables`. Elsewhere it is
    replaced by its value, because the parser needs the syntax; so is one whose variable has another value already.
    """
    if "${" not in query:
        return query, ()
    words, texts = _places(query)
    unknown: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        key, at = match["key"].strip(), match.start()
        if not any(begin <= at < end for begin, end in words):
            return match[0]
        value = settings.get(key)
        if value is None or "${" in value:
            unknown.append(match[0])
            return match[0]
        if not any(begin <= at < end for begin, end in texts):
            return value
        name = re.sub(r"[^A-Za-z0-9_]", "_", key)
        name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
        return value if variables.setdefault(name, value) != value else f"${{{name}}}"

    return _REFERENCE.sub(replaced, query), tuple(unknown)


def _places(query: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the words of a query are, and which of them are texts. All of it is one word if it cannot be read."""
    try:
        tokens = tokenize_query(query)
    except SqlSyntaxError:
        return [(0, len(query))], []
    places = [(token.start, token.end + 1) for token in tokens]
    return places, [place for place, token in zip(places, tokens, strict=True) if token.token_type.name == "STRING"]
