"""The file spark-pipeline.yml, and the files that its globs name, as `spark-pipelines` of PySpark 4.3 finds them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_service.errors import NotFound, Problem, WorkflowError
from lineage_service.spec.fields import as_text
from lineage_service.spec.yaml_tree import Tree, read_tree

FILE_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_KEYS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_GLOB_HINT = "a glob is a path without wildcards, or a folder with /** behind it"


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline.

    folder: the folder of its file: globs start there.
    catalog, database: where tables are whose names have fewer parts.
    files: the files with definitions, in the order of their names.
    warnings: what is said in the file that makes no difference here.
    """

    name: str
    folder: Path
    catalog: str
    database: str
    configuration: Mapping[str, str]
    files: tuple[Path, ...]
    warnings: tuple[str, ...]


def read_pipeline_spec(path: Path) -> PipelineSpec:
    """The pipeline of a folder, or of its file. Raises NotFound or WorkflowError if there is none."""
    file = _spec_file(path)
    tree = read_tree(file, str(file))
    if tree.problems:
        raise WorkflowError(tree.problems)
    problems: list[Problem] = []
    warnings: list[str] = []
    files = tuple(_files(tree, file.parent, problems, warnings))
    configuration = _configuration(tree, problems)
    warnings += [
        f"'{key}' in {file.name} is not a key of a pipeline: spark-pipelines refuses it"
        for key in tree.value
        if key not in _KEYS and key != "definitions"
    ]
    if problems:
        raise WorkflowError(problems)
    value = tree.value
    return PipelineSpec(
        name=_text(value, "name") or file.parent.absolute().name,
        folder=file.parent,
        catalog=(_text(value, "catalog") or "spark_catalog").lower(),
        database=(_text(value, "database") or _text(value, "schema") or "default").lower(),
        configuration=configuration,
        files=files,
        warnings=tuple(warnings),
    )


def _spec_file(path: Path) -> Path:
    try:
        if path.is_file():
            return path
        if not path.exists():
            raise NotFound(f"'{path}' does not exist", hint="name the folder that has spark-pipeline.yml")
        found = [path / name for name in FILE_NAMES if (path / name).is_file()]
    except (OSError, ValueError) as error:
        raise NotFound(f"'{path}' cannot be read") from error
    if not found:
        raise NotFound(
            f"there is no {' and no '.join(FILE_NAMES)} in '{path}'",
            hint="name the folder of the project: the one that `spark-pipelines init` made",
        )
    if len(found) > 1:
        raise WorkflowError(f"'{path}' has {' and '.join(FILE_NAMES)}", hint="name the file that is meant")
    return found[0]


def _text(value: Mapping[str, Any], key: str) -> str:
    found = as_text(value.get(key))
    return found.strip() if isinstance(found, str) else ""


def _configuration(tree: Tree, problems: list[Problem]) -> dict[str, str]:
    found = tree.value.get("configuration", {})
    if not isinstance(found, dict):
        problems.append(Problem("'configuration' needs a mapping of texts", tree.marks.at("configuration")))
        return {}
    wrong = [key for key, value in found.items() if not isinstance(as_text(value), str)]
    problems += [Problem(f"'{key}' needs a text", tree.marks.at("configuration", key)) for key in wrong]
    return {key: str(as_text(value)) for key, value in found.items() if key not in wrong}


def _files(tree: Tree, folder: Path, problems: list[Problem], warnings: list[str]) -> Iterator[Path]:
    """The files that match the globs. `definitions` is what previews of Spark called `libraries`."""
    seen: set[Path] = set()
    for key in ("libraries", "definitions"):
        entries = tree.value.get(key) or []
        if not isinstance(entries, list):
            problems.append(Problem(f"'{key}' needs a list of globs", tree.marks.at(key)))
            continue
        for index, entry in enumerate(entries):
            pattern = entry.get("glob") if isinstance(entry, dict) else None
            pattern = pattern.get("include") if isinstance(pattern, dict) else None
            if not isinstance(pattern, str):
                hint = "write: - glob: {include: transformations/**}"
                problems.append(Problem("an entry needs 'glob' with 'include'", tree.marks.at(key, index), hint))
                continue
            try:
                matching = sorted(_matching(folder, pattern))
            except (ValueError, OSError, NotImplementedError, IndexError):
                problems.append(Problem(f"'{pattern}' is not a valid glob", tree.marks.at(key, index), _GLOB_HINT))
                continue
            if glob.has_magic(pattern) and (not pattern.endswith("/**") or glob.has_magic(pattern[:-3])):
                warnings.append(f"spark-pipelines refuses the glob '{pattern}': {_GLOB_HINT}")
            if not matching:
                warnings.append(f"no file matches the glob '{pattern}'")
            for file in matching:
                if file not in seen:
                    seen.add(file)
                    yield file


def _matching(folder: Path, pattern: str) -> Iterator[Path]:
    if pattern.endswith("/**"):
        pattern = f"{pattern}/*"
    for file in folder.glob(pattern):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file
