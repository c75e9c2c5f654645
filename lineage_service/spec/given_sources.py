"""Where tables are that a query names and nobody builds: `--source NAME=PATH`, repeated."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from lineage_service.errors import Problem, WorkflowError

GivenSources = Mapping[str, str | Path] | Iterable[tuple[str, str | Path]]


def given_sources(given: GivenSources, folder: Path) -> dict[str, str]:
    """Paths by table, in lower case: tables are found as Spark finds them.

    A relative path is relative to the current folder. It is returned relative to `folder`, where the workflow is, as
    paths in a workflow file are: then it does not matter from where the workflow is run. Raises WorkflowError with
    everything that is wrong.
    """
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    problems = []
    for table, where in given.items() if isinstance(given, Mapping) else given:
        path = str(where)
        name = _table_name(table)
        if not name or not path.strip():
            problems.append(Problem(f"source '{table}={path}' needs a name and a path", hint="write NAME=PATH"))
        elif name in found:
            problems.append(Problem(f"source '{table}' is given twice: '{spelled[name]}' and '{path}'"))
        else:
            spelled[name], found[name] = path, _relative(path, folder)
    if problems:
        raise WorkflowError(problems)
    return found


def without_sources(given: GivenSources, tables: Container[str]) -> list[tuple[str, str | Path]]:
    """Those of other tables; `tables` in lower case."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(table, path) for table, path in pairs if _table_name(table) not in tables]


def _table_name(written: str) -> str:
    return written.strip().replace("`", "").lower()


def _relative(path: str, folder: Path) -> str:
    if "://" in path or path.startswith("~") or Path(path).is_absolute():
        return path
    # Without links in it: `..` behind a link leads to the parent of the folder that the link names.
    return os.path.relpath(Path.cwd() / path, os.path.realpath(folder))
