"""A workflow as YAML: short parts on one line, texts in quotes where YAML would read them as something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lineage_service.spec.yaml_scalars import core_value

_WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_./(][A-Za-z0-9_./ *+()=<>-]*\Z")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def yaml_text(value: dict[str, Any]) -> str:
    """The mapping as text. Reading it gives the mapping again."""
    return "".join(f"{line}\n" for line in _mapping(value, ""))


def _mapping(value: dict[str, Any], indent: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _entry(f"{indent}{_scalar(key)}:", each, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    flow = f"{head} {_flow(value)}"
    is_nested = isinstance(value, dict | list) and bool(value)
    if not is_nested or (len(flow) <= _WIDTH and indent and not _is_list_of_mappings(value)):
        yield flow
        return
    yield head
    if isinstance(value, dict):
        yield from _mapping(value, f"{indent}  ")
        return
    for item in value:
        yield from _item(item, f"{indent}  ")


def _item(item: Any, indent: str) -> Iterator[str]:
    flow = f"{indent}- {_flow(item)}"
    if not isinstance(item, dict) or not item or len(flow) <= _WIDTH:
        yield flow
        return
    lines = list(_mapping(item, f"{indent}  "))
    yield f"{indent}- {lines[0].lstrip()}"
    yield from lines[1:]


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) for each in value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.match(value) and not value.endswith(" ") and isinstance(core_value(value), str):
        return value
    return f'"{"".join(_escaped(each) for each in value)}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08X}"
