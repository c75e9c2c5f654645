"""The sql steps of a workflow file before models see them: files read, the tables that each query reads found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lineage_service.errors import Problem, join_names
from lineage_service.spec.problems import Collector
from lineage_service.spec.sql_parsing import parse_query, tables_of
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.sql_text import SqlText, whole_file, yaml_scalar
from lineage_service.spec.variables import replaced_ranges, substitute_declared
from lineage_service.spec.yaml_tree import Tree, YamlPositions

MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SqlSources:
    """A tree in which `file` of sql steps is replaced by `query`, and the text of each query by the step's index.

    files: what was written as `file`, with its variables.
    """

    tree: Tree
    texts: dict[int, SqlText]
    files: tuple[str, ...] = ()


def read_sql_files(tree: Tree, path: Path, variables: Mapping[str, str]) -> SqlSources:
    """Puts the text of each .sql file in the place of its name; what cannot be read becomes a problem of the tree.

    The text becomes a part of the workflow: its version changes with it, and a run keeps what it has read.
    """
    steps = tree.value.get("steps")
    if not isinstance(steps, list) or not any(_is_sql(step) for step in steps):
        return SqlSources(tree, {})
    texts: dict[int, SqlText] = {}
    problems: list[Problem] = []
    read, files = [], []
    for index, step in enumerate(steps):
        new = step
        if _is_sql(step) and "inputs" in step:
            message = "unknown key 'inputs' in a step (sql); the tables that its query names are its inputs"
            problems.append(Problem(message, tree.marks.key("steps", index, "inputs")))
            new = {key: value for key, value in step.items() if key != "inputs"}
        if _is_sql(step) and isinstance(step.get("file"), str) and "query" not in step:
            files.append(step["file"])
            name = substitute_declared(step["file"], tree.value.get("vars"), variables)
            place = tree.marks.at("steps", index, "file")
            text = _read(path.parent / name)
            if isinstance(text, str):
                shown = str(Path(tree.marks.file).parent / name)
                texts[index] = whole_file(text, shown)
                new = {("query" if key == "file" else key): text if key == "file" else new[key] for key in new}
            else:
                problems.append(Problem(f"the file '{name}' {text.reason}", place, text.hint))
        elif _is_sql(step) and isinstance(step.get("query"), str):
            texts[index] = _scalar_text(step["query"], tree.marks, index)
        read.append(new)
    value = {**tree.value, "steps": read}
    return SqlSources(replace(tree, value=value, problems=(*tree.problems, *problems)), texts, tuple(files))


def files_of_steps(tree: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """The .sql files that a workflow names, relative to it."""
    steps = tree.get("steps")
    return [
        substitute_declared(step["file"], tree.get("vars"), variables)
        for step in (steps if isinstance(steps, list) else ())
        if _is_sql(step) and isinstance(step.get("file"), str)
    ]


def with_tables_read(
    whole: Mapping[str, Any],
    texts: Mapping[int, SqlText],
    values: Mapping[str, str | None],
    environment: Mapping[str, str],
    unresolved: Collection[tuple[str | int, ...]],
    found: Collector,
) -> tuple[dict[str, Any], dict[int, SqlText]]:
    """The tree with the inputs of every sql step, and the texts with variables replaced.

    A name that is neither a source nor a step is left to the compiler, which knows its place in the query.
    """
    if not texts or not isinstance(whole.get("steps"), list):
        return dict(whole), {}
    sources = whole.get("sources")
    named = {step.get("name") for step in whole["steps"] if isinstance(step, dict)}
    known = named | set(sources if isinstance(sources, dict) else ())
    steps, replaced = list(whole["steps"]), {}
    for index, text in texts.items():
        query = steps[index].get("query")
        if not isinstance(query, str) or ("steps", index, "query") in unresolved:
            continue
        ranges = replaced_ranges(text.text, values, environment)
        replaced[index] = sql = replace(text, text=query, replaced=ranges)
        try:
            tables = tables_of(parse_query(query))
        except SqlSyntaxError as error:
            found.add(error.message, sql.position(error.offset), error.hint)
            tables = ()
        steps[index] = {**steps[index], "inputs": [name for name in tables if name in known]}
    return {**whole, "steps": steps}, replaced


def _is_sql(step: Any) -> bool:
    return isinstance(step, dict) and step.get("op") == "sql"


def _scalar_text(text: str, marks: YamlPositions, index: int) -> SqlText:
    path = ("steps", index, "query")
    return yaml_scalar(text, marks.file, marks.lines, marks.values.get(path, (0, 0)), marks.styles.get(path))


@dataclass(frozen=True, slots=True)
class _UnreadableFile:
    reason: str
    hint: str | None = None


def _read(path: Path) -> str | _UnreadableFile:
    try:
        if not path.is_file():
            beside = sorted(each.name for each in path.parent.glob("*.sql")) if path.parent.is_dir() else []
            hint = f"files there: {join_names(beside)}" if beside else "the name is relative to the workflow file"
            return _UnreadableFile("does not exist", hint)
        if path.stat().st_size > MOST_BYTES:
            return _UnreadableFile(f"has more than {MOST_BYTES:,} bytes")
        return path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return _UnreadableFile("is not UTF-8", "save it as UTF-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _UnreadableFile(f"cannot be read: {reason}")
