"""`${name}` and `${env:NAME}` in the strings of a workflow file; `$${` stands for a literal `${`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
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
    collector: Collector,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str | None]:
    """The value of every declared variable: its default, or the given one.

    Values are not substituted again, except that a default may contain ${env:NAME}. Problems are added to `collector`.
    A variable without a usable value is None, so that its uses are not reported as well.
    """
    values: dict[str, str | None] = {}
    # That vars is a mapping at all is for the models to say.
    for name, default in (declared if isinstance(declared, dict) else {}).items():
        at = marks.at("vars", name)
        values[name] = None
        if not _NAME.match(name):
            collector.add(
                f"'{name}' is not a valid variable name; letters, digits and _ are allowed", marks.key("vars", name)
            )
        elif name in overrides:
            values[name] = str(as_text(overrides[name]))
        elif default is None or isinstance(default, dict | list):
            collector.add(f"variable '{name}' needs a default: text, a number, true or false", at)
        elif not isinstance(default, str):
            values[name] = str(as_text(default))
        else:
            values[name] = _substitute_in_text(default, None, marks, ("vars", name), collector, environment)
    for name in overrides:
        if name not in values:
            message = f"unknown variable '{name}' was given; variables here: {join_names(values)}"
            collector.add(message, marks.key("vars"), collector.similar_name_hint(name, values))
    return values


@dataclass(frozen=True, slots=True)
class Substitution:
    """A tree with references replaced. `unresolved` are the paths of texts in which one could not be replaced: they are
    as written and must not be interpreted.
    """

    tree: dict[str, Any]
    unresolved: frozenset[Path_]


def substitute_variables(
    tree: Mapping[str, Any],
    values: Mapping[str, str | None],
    marks: YamlPositions,
    collector: Collector,
    environment: Mapping[str, str] = os.environ,
) -> Substitution:
    """The tree with references replaced in every text under sources, steps, outputs and lineage. Keys are not
    changed.
    """
    unresolved: set[Path_] = set()

    def walk(node: Any, path: Path_) -> Any:
        if isinstance(node, dict):
            return {key: walk(value, (*path, key)) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(value, (*path, index)) for index, value in enumerate(node)]
        if isinstance(node, str) and "${" in node:
            text = _substitute_in_text(node, values, marks, path, collector, environment)
            if text is not None:
                return text
            unresolved.add(path)
            collector.silence(marks.at(*path))
        return node

    replaced = {key: walk(value, (key,)) if key in SUBSTITUTED else value for key, value in tree.items()}
    return Substitution(replaced, frozenset(unresolved))


def substitute_declared(text: str, declared: object, overrides: Mapping[str, str]) -> str:
    """A text with the values of declared variables, if they have any, for what is read before everything else."""
    defaults = declared if isinstance(declared, dict) else {}

    def value_of(match: re.Match[str]) -> str:
        if match["inner"] is None:
            return "${"
        name = match["inner"].strip()
        value = os.environ.get(name[4:].strip()) if name.startswith("env:") else overrides.get(name, defaults.get(name))
        return match[0] if value is None else str(as_text(value))

    return _REFERENCE.sub(value_of, text)


def referenced_variables(text: str) -> Iterator[tuple[str, int]]:
    """The variables that a text refers to, with the offset of each reference; those of the environment are left out."""
    for match in _REFERENCE.finditer(text):
        if match["inner"] is not None and match["end"] and not match["inner"].strip().startswith("env:"):
            yield match["inner"].strip(), match.start()


def literal_text(text: str) -> str:
    """A text as it is written so that nothing in it is replaced."""
    return text.replace("${", "$${")


def replaced_ranges(
    text: str, values: Mapping[str, str | None], environment: Mapping[str, str]
) -> tuple[tuple[int, int, int, int], ...]:
    """The places of replaced references in a text: begin and end of the value, begin and end of the reference."""
    ranges, shift = [], 0
    for match in _REFERENCE.finditer(text):
        inner = match["inner"]
        if inner is None:
            value: str | None = "${"
        elif inner.strip().startswith("env:"):
            name = inner.strip().removeprefix("env:").strip()
            value = environment.get(name)
        else:
            value = values.get(inner.strip())
        if value is not None:
            begin = match.start() + shift
            ranges.append((begin, begin + len(value), match.start(), match.end()))
            shift += len(value) - len(match[0])
    return tuple(ranges)


def warn_of_unused(parts: Iterable[Any], values: Iterable[str], marks: YamlPositions, collector: Collector) -> None:
    """A warning for each variable that no string in these parts of a workflow mentions."""
    used: set[str] = set()
    pending = list(parts)
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            used |= {match["inner"].strip() for match in _REFERENCE.finditer(node) if match["inner"] is not None}
        elif isinstance(node, dict | list):
            pending += node.values() if isinstance(node, dict) else node
    for name in values:
        if name not in used:
            hint = f"write ${{{name}}} where it is meant, or remove it"
            collector.add(f"nothing uses variable '{name}'", marks.key("vars", name), hint, "warning")


def _substitute_in_text(
    text: str,
    values: Mapping[str, str | None] | None,
    marks: YamlPositions,
    path: Path_,
    collector: Collector,
    environment: Mapping[str, str],
) -> str | None:
    """A text with its references replaced; None if one cannot be. If `values` is None, only ${env:NAME} is allowed."""
    failed = False

    def value_of(match: re.Match[str]) -> str | None:
        inner = match["inner"].strip()
        if not match["end"]:
            collector.add("'${' is not closed", marks.at(*path), "write $${ for a literal ${")
        elif inner.startswith("env:"):
            name = inner.removeprefix("env:").strip()
            if name in environment:
                return environment[name]
            collector.add(f"environment variable '{name}' is not set", marks.at(*path))
        elif values is None:
            message = f"a variable's default may hold ${{env:NAME}} only, not '${{{inner}}}'"
            collector.add(message, marks.at(*path), "write $${ for a literal ${")
        elif inner in values:
            return values[inner]  # None: its declaration has been blamed
        else:
            message = f"unknown variable '{inner}'; variables here: {join_names(values)}"
            hint = (
                collector.similar_name_hint(inner, values)
                or "write ${env:NAME} for the environment, $${ for a literal ${"
            )
            collector.add(message, marks.at(*path), hint)
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
