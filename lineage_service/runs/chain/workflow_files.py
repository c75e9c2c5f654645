"""Which workflow files a list of files and folders means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lineage_service.errors import LineageError, NotFound, WorkflowError
from lineage_service.spec.query_file import is_query_file
from lineage_service.spec.sql_steps import files_of_steps
from lineage_service.spec.yaml_tree import MAX_BYTES, read_tree

_YAML = (".yml", ".yaml")
_STEPS = re.compile(rb"""\bsteps["']?\s*:""")
# In files that cannot be parsed: keys of the top level, and of any level where all is in braces.
_TOP_KEYS = re.compile(rb"""^["']?(steps|sources|outputs|version)["']?\s*:""", re.MULTILINE)
_KEYS = re.compile(rb"""\b(steps|sources|outputs)["']?\s*:""")


def workflow_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files that are named, and those below the folders that are named, each once. NotFound for what does not
    exist, WorkflowError for a folder without a workflow.
    """
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        if not _exists(path):
            raise NotFound(f"workflow file '{path}' does not exist")
        files = _files_below(path) if path.is_dir() else [path]
        if not files:
            raise WorkflowError(
                f"there is no workflow in '{path}'",
                hint="a workflow is a .yml or .yaml file with `steps`, or a .sql file with one query",
            )
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _files_below(folder: Path) -> list[Path]:
    """Workflows below a folder, in order of their paths: YAML files with a workflow's keys, and .sql files that are not
    the text of one of these steps. Folders and files whose name begins with a dot are left out.
    """
    files = list(_visible_files(folder))
    workflows = [file for file in files if file.suffix.lower() in _YAML and _is_workflow(file)]
    texts = {os.path.realpath(text) for file in workflows for text in _texts_of_steps(file)}
    queries = [file for file in files if is_query_file(file) and os.path.realpath(file) not in texts]
    return sorted([*workflows, *queries])


def _visible_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _is_workflow(file: Path) -> bool:
    """Whether a YAML file is a workflow: its top level has `steps`, and `sources` or `outputs`, or a step has `op`.
    Files of other programs, which may have steps too, are left out; those without any steps are not parsed.
    """
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except OSError:
        return True  # loading it tells what is wrong
    if _STEPS.search(text) is None:
        return False
    try:
        tree = read_tree(file, str(file)).value
    except LineageError:  # loading it tells what is wrong, if it is a workflow
        keys = (_KEYS if text.lstrip().startswith(b"{") else _TOP_KEYS).findall(text)
        return b"steps" in keys and len(set(keys)) > 1
    steps = tree.get("steps")
    has_op = isinstance(steps, list) and any(isinstance(step, dict) and "op" in step for step in steps)
    return "steps" in tree and ("sources" in tree or "outputs" in tree or has_op)


def _texts_of_steps(file: Path) -> Iterable[Path]:
    try:
        tree = read_tree(file, str(file)).value
    except LineageError:
        return ()  # loading it tells what is wrong
    return [file.parent / name for name in files_of_steps(tree, {})]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
