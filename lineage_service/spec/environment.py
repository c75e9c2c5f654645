"""Values of the environment in a workflow: used by the run, and kept as references, `${env:NAME}`, never as values.

While a workflow is read a second time, each value is replaced by a mark that no text has. Where the mark ends up, the
catalog gets the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

KEY = "environment"  # in the content of a run: names of variables, with keyed digests of their values
_MARK = re.compile("\ue0f0([^\ue0f0\ue0f1]*)\ue0f1")
_ESCAPED = re.compile(r"\$\$\{|\$\{env:([^{}]*)\}")


class UsedEnvironment(Mapping[str, str]):
    """The environment, noting what is read from it; with `marked`, it gives marks instead of values."""

    def __init__(self, *, marked: bool = False) -> None:
        self.marked = marked
        self.used: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        self.used[name] = os.environ[name]
        return f"\ue0f0{name}\ue0f1" if self.marked else self.used[name]

    def __contains__(self, name: object) -> bool:
        return name in os.environ

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def has_mark(node: Any) -> bool:
    """Whether a value of the environment went into a part of a workflow."""
    if isinstance(node, dict):
        return any(has_mark(each) for each in (*node, *node.values()))
    if isinstance(node, list | tuple):
        return any(has_mark(each) for each in node)
    return isinstance(node, str) and _MARK.search(node) is not None


def with_references(node: Any) -> Any:
    """Marks as references; what reads like a reference and is none is written `$${`."""
    if isinstance(node, dict):
        return {with_references(key): with_references(value) for key, value in node.items()}
    if isinstance(node, list):
        return [with_references(each) for each in node]
    return _MARK.sub(r"${env:\1}", node.replace("${", "$${")) if isinstance(node, str) else node


def with_values(node: Any, values: Mapping[str, str]) -> Any:
    """The reverse of `with_references`, with values in the place of references."""
    if isinstance(node, dict):
        return {with_values(key, values): with_values(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [with_values(each, values) for each in node]
    if not isinstance(node, str):
        return node
    return _ESCAPED.sub(lambda match: "${" if match[1] is None else values[match[1]], node)
