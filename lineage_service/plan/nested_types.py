"""Parts of Spark types in text form: fields of a struct, elements of an array, entries of a map."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_FIELD = re.compile(r"\s*(?P<name>`(?:[^`]|``)+`|[^\s:`]+)\s*:\s*(?P<type>\S.*?)\s*(?:\bnot null\s*)?\Z", re.DOTALL)


def constructor(kind: str | None) -> str | None:
    """The first word of a type, in lower case: `array` of `array<int>`."""
    word = re.match(r"[a-z_]+", (kind or "").strip().lower())
    return word[0] if word else None


def struct_fields(kind: str | None) -> dict[str, str] | None:
    """The fields of a struct by name in lower case; None if it is no struct, or they are unknown."""
    if constructor(kind) != "struct":
        return None
    parts = _type_arguments(str(kind))
    found = [match for part in parts or () if (match := _FIELD.match(part))]
    if parts is None or len(found) != len(parts):
        return None
    return {_bare(match["name"]).lower(): match["type"] for match in found}


def field_names(kind: str | None) -> list[str] | None:
    """The names of a struct's fields as they are written; None if it is no struct, or they are unknown."""
    if struct_fields(kind) is None:
        return None
    return [_bare(match["name"]) for part in _type_arguments(str(kind)) or () if (match := _FIELD.match(part))]


def field_type(kind: str | None, fields: Sequence[str]) -> str | None:
    """The type of a nested field of a struct, if known."""
    for name in fields:
        kind = (struct_fields(kind) or {}).get(name.lower())
    return kind


def exploded_type(kind: str | None) -> str | None:
    """The type of the rows that `explode` returns for an array or map, if known."""
    parts = _type_arguments(str(kind)) or []
    if constructor(kind) == "array" and len(parts) == 1:
        return parts[0].strip()
    if constructor(kind) == "map" and len(parts) == 2:
        return f"struct<key:{parts[0].strip()},value:{parts[1].strip()}>"
    return None


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _type_arguments(kind: str) -> list[str] | None:
    """The texts between the outermost < and >, separated by commas; None if there is no such pair."""
    text = kind.strip()
    start = text.find("<")
    if start < 0 or not text.endswith(">"):
        return None
    return list(_split_at_commas(text[start + 1 : -1]))


def _split_at_commas(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for match in re.finditer(r"`(?:[^`]|``)*`|[<(]|[>)]|,", text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth == 0:
            yield text[begin : match.start()]
            begin = match.end()
    if text[begin:].strip():
        yield text[begin:]
