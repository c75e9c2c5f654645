"""References to settings in the queries of a pipeline, `${key}`, as Spark substitutes them before it reads a query.

Only what `configuration` of the pipeline sets is there at that time: `SET` statements come too late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lineage_service.spec.sql_parsing import tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

_REFERENCE = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?(?P<key>[^{}]*)\}")

_DEPTH, _LENGTH = 40, 100_000  # of settings in settings; the depth is Spark's


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
    known: dict[str, tuple[str, list[str]]] = {}

    def replaced(match: re.Match[str]) -> str:
        key, at = match["key"].strip(), match.start()
        if not any(begin <= at < end for begin, end in words):
            return match[0]
        value, missing = _value(key, settings, known)
        if missing:
            unknown.extend(missing)
            return match[0]
        if not any(begin <= at < end for begin, end in texts):
            return value
        name = re.sub(r"[^A-Za-z0-9_]", "_", key)
        name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
        return value if variables.setdefault(name, value) != value else f"${{{name}}}"

    return _REFERENCE.sub(replaced, query), tuple(dict.fromkeys(unknown))


def _value(
    key: str, settings: Mapping[str, str], known: dict[str, tuple[str, list[str]]], above: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    """The value of a setting with the values of other settings in it, and the references that have none. As in Spark,
    settings that refer to each other have none. `known`: values found before.
    """
    if key in known:
        return known[key]
    value, missing = settings.get(key), list[str]()
    if value is None or key in above or len(above) >= _DEPTH:
        return "", [f"${{{key}}}"]

    def replaced(match: re.Match[str]) -> str:
        inner, unknown = _value(match["key"].strip(), settings, known, (*above, key))
        missing.extend(each for each in unknown if each not in missing)
        return inner

    whole = _REFERENCE.sub(replaced, value)
    known[key] = (whole, missing) if len(whole) <= _LENGTH else ("", [f"${{{key}}}"])
    return known[key]


def _places(query: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the words of a query are, and which of them are texts. All of it is one word if it cannot be read."""
    try:
        tokens = tokenize_query(query)
    except SqlSyntaxError:
        return [(0, len(query))], []
    places = [(token.start, token.end + 1) for token in tokens]
    return places, [place for place, token in zip(places, tokens, strict=True) if token.token_type.name == "STRING"]
