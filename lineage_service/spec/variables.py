"""`${name}` and `${env:NAME}` in the strings of a workflow file; `$${` stands for a literal `${`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lineage_service.errors import join_names
from lineage_service.spec.fields import as_text
from lineage_service.spec.problems import Collector
from lineage_service.spec.yaml_tree import YamlPositions

Path_ = tuple[str | int, ...]

SUBSTITUTED = ("sources", "steps", "outputs", "lineage")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inner>[^{}]*)(?P<end>\}?)")


def variable_values(
    declared: object,
    overrides: Mapping[str, str],
    marks: YamlPositions,
    found: Collector,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str | None]:
    """The value of every declared variable: its default, or what was given instead.

    Values are not substituted again, except that a default may hold ${env:NAME}. What is wrong goes to `found`;
    a variable that has no usable value is there all the same, as None, so that its uses are not problems as well.
    """
    values: dict[str, str | None] = {}
    # That vars is a mapping at all is for the models to say.
    for name, default in (declared if isinstance(declared, dict) else {}).items():
        at = marks.at("vars", name)
        values[name] = None
        if not _NAME.match(name):
            found.add(f"'{name}' is no name for a variable; letters, digits and _ are allowed", marks.key("vars", name))
        elif name in overrides:
            values[name] = str(as_text(overrides[name]))
        elif default is None or isinstance(default, dict | list):
            found.add(f"variable '{name}' needs a default: text, a number, true or false", at)
        elif not isinstance(default, str):
            values[name] = str(as_text(default))
        else:
            values[name] = _substitute_in_text(default, None, marks, ("vars", name), found, environment)
    for name in overrides:
        if name not in values:
            message = f"unknown variable '{name}' was given; variables here: {join_names(values)}"
            found.add(message, marks.key("vars"), found.similar_name_hint(name, values))
    return values


@dataclass(frozen=True, slots=True)
class Substitution:
    """A tree with its references replaced. `unresolved` are the paths of the strings where one could not be: they
    stand there as written, and nothing may be concluded from them."""

    tree: dict[str, Any]
    unresolved: frozenset[Path_]


def substitute_variables(
    tree: Mapping[str, Any],
    values: Mapping[str, str | None],
    marks: YamlPositions,
    found: Collector,
    environment: Mapping[str, str] = os.environ,
) -> Substitution:
    """The tree with references replaced in every string under sources, steps, outputs and lineage; keys stay."""
    unresolved: set[Path_] = set()

    def walk(node: Any, path: Path_) -> Any:
        if isinstance(node, dict):
            return {key: walk(value, (*path, key)) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(value, (*path, index)) for index, value in enumerate(node)]
        if isinstance(node, str) and "${" in node:
            text = _substitute_in_text(node, values, marks, path, found, environment)
            if text is not None:
                return text
            unresolved.add(path)
            found.silence(marks.at(*path))
        return node

    replaced = {key: walk(value, (key,)) if key in SUBSTITUTED else value for key, value in tree.items()}
    return Substitution(replaced, frozenset(unresolved))


def warn_of_unused(tree: Mapping[str, Any], values: Iterable[str], marks: YamlPositions, found: Collector) -> None:
    """A warning for each variable that no string mentions."""
    used: set[str] = set()
    pending = [tree.get(key) for key in SUBSTITUTED]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            used |= {match["inner"].strip() for match in _REFERENCE.finditer(node) if match["inner"] is not None}
        elif isinstance(node, dict | list):
            pending += node.values() if isinstance(node, dict) else node
    for name in values:
        if name not in used:
            hint = f"write ${{{name}}} where it is meant, or remove it"
            found.add(f"nobody uses variable '{name}'", marks.key("vars", name), hint, "warning")


def _substitute_in_text(
    text: str,
    values: Mapping[str, str | None] | None,
    marks: YamlPositions,
    path: Path_,
    found: Collector,
    environment: Mapping[str, str],
) -> str | None:
    """One string with its references replaced; None where one cannot be. `values` None: only ${env:NAME} is allowed."""
    failed = False

    def value_of(match: re.Match[str]) -> str | None:
        inner = match["inner"].strip()
        if not match["end"]:
            found.add("'${' is not closed", marks.at(*path), "write $${ for a literal ${")
        elif inner.startswith("env:"):
            name = inner.removeprefix("env:").strip()
            if name in environment:
                return environment[name]
            found.add(f"environment variable '{name}' is not set", marks.at(*path))
        elif values is None:
            message = f"a variable's default may hold ${{env:NAME}} only, not '${{{inner}}}'"
            found.add(message, marks.at(*path), "write $${ for a literal ${")
        elif inner in values:
            return values[inner]  # None: its declaration has been blamed
        else:
            message = f"unknown variable '{inner}'; variables here: {join_names(values)}"
            hint = (
                found.similar_name_hint(inner, values) or "write ${env:NAME} for the environment, $${ for a literal ${"
            )
            found.add(message, marks.at(*path), hint)
        return None

    def replace(match: re.Match[str]) -> str:
        nonlocal failed
        if match["inner"] is None:
            return "${"
        value = value_of(match)
        failed = failed or value is None
        return match[0] if value is None else value

    result = _REFERENCE.sub(replace, text)
    return None if failed else result
