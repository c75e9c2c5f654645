"""The workflow file that an import makes: its text, and what is wrong with it, before it is put in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from lineage_service.errors import LineageError, Position, Problem
from lineage_service.importers.assembly import ImportedWorkflow, imported_workflow
from lineage_service.importers.foreign_project import ForeignProject
from lineage_service.importers.workflow_text import query_files, workflow_text
from lineage_service.runs.validation import checked_workflow
from lineage_service.spec.given_sources import GivenSources
from lineage_service.spec.yaml_tree import MAX_BYTES

STANDARD_OUTPUT = "standard output"


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """An imported workflow as a file.

    file: where it is to be written; None for standard output.
    text: its content.
    query_files: the texts of .sql files by their paths, which start from the folder of `file`. There are some only if
        the workflow file would be too large with its queries in it.
    problems: what keeps it from running, and warnings.
    """

    workflow: ImportedWorkflow
    file: Path | None
    text: str
    query_files: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    def to_json(self) -> dict[str, Any]:
        """The report, as `--json` prints it. It has the text of the file only if no file is written."""
        flow = self.workflow
        return {
            "workflow": flow.name,
            "file": None if self.file is None else str(self.file),
            "query_files": list(self.query_files),
            "from": flow.tool,
            "sources": {
                each.name: {"from": each.made_from, "path": None if each.missing else each.path}
                for each in flow.sources
            },
            "steps": {each.name: {"from": each.made_from, "checks": len(each.checks)} for each in flow.steps},
            "outputs": list(flow.outputs),
            "missing_sources": [each.flag for each in flow.missing],
            "renamed": [{"what": each.what, "name": each.name} for each in flow.renamed],
            "not_taken_over": [
                {"what": each.what, "name": each.name, "reason": each.reason} for each in flow.omissions
            ],
            "warnings": [*flow.warnings, *(str(replace(each, severity="error")) for each in self.warnings)],
            "problems": [_problem_json(each) for each in self.errors],
            **({"text": self.text} if self.file is None else {}),
        }


def import_project(
    read: Callable[[], ForeignProject], given: GivenSources = (), file: Path | None = None
) -> ImportedFile:
    """The workflow file for a project. It is checked as `validate` checks it, but not written.

    `given` says where sources are; `file` is where the text will be written, which decides how paths look.
    """
    project = read()
    folder = Path.cwd() if file is None else file.parent
    flow = imported_workflow(project, given, folder)
    text, queries = workflow_text(flow), None
    if file is not None and len(text.encode("utf-8")) > MAX_BYTES:
        queries = f"{file.stem}_sql"
        text = workflow_text(flow, queries)
    beside = query_files(flow, queries) if queries else {}
    return ImportedFile(flow, file, text, beside, _all_problems(flow, text, folder, file, queries))


def _all_problems(
    flow: ImportedWorkflow, text: str, folder: Path, file: Path | None, queries: str | None
) -> tuple[Problem, ...]:
    shown = STANDARD_OUTPUT if file is None else str(file)
    missing = _missing_sources(flow, text, shown)
    places = {problem.position.line for problem in missing if problem.position}
    found = [
        each
        for each in _checked(flow, folder, shown, queries)
        if not (each.severity == "warning" and each.position and each.position.line in places)
    ]
    return tuple(sorted([*missing, *found], key=lambda each: each.position.line if each.position else 0))


def _checked(flow: ImportedWorkflow, folder: Path, shown: str, queries: str | None) -> Iterator[Problem]:
    """What `validate` says of the workflow, at places of the file that will be written."""
    with _draft(flow, folder, with_files=queries is not None) as draft:
        for each in _validate(draft):
            if each.position is None:
                yield each
                continue
            of_query = str(Path(shown).parent / str(queries) / Path(each.position.file).name)
            file = shown if each.position.file == str(draft) else of_query
            yield replace(each, position=replace(each.position, file=file))


@contextmanager
def _draft(flow: ImportedWorkflow, folder: Path, *, with_files: bool) -> Iterator[Path]:
    """The workflow as a file in the folder that its paths start from, or elsewhere if that cannot be written."""
    name = f".import-{os.getpid()}"
    queries = name if with_files else None
    texts = {f"{name}.yml": workflow_text(flow, queries), **(query_files(flow, queries) if queries else {})}
    try:
        _write_all(folder, texts)
        yield folder / f"{name}.yml"
    except OSError:
        with TemporaryDirectory() as other:
            _write_all(Path(other), texts)
            yield Path(other) / f"{name}.yml"
    finally:
        (folder / f"{name}.yml").unlink(missing_ok=True)
        shutil.rmtree(folder / name, ignore_errors=True)


def _write_all(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")


def _validate(draft: Path) -> tuple[Problem, ...]:
    try:
        return checked_workflow(draft, None, _no_output, missing="warning")[2]
    except LineageError as error:
        return tuple(
            replace(each, message=each.message.replace(f"workflow file '{draft}'", "the file"))
            for each in error.problems
        )


def _no_output(name: str) -> NoReturn:
    raise LineageError(f"'{name}' is an output of another workflow; the sources of an import must be files")


def _missing_sources(flow: ImportedWorkflow, text: str, shown: str) -> list[Problem]:
    lines = text.split("\n")
    found = []
    for source in flow.missing:
        head = lines.index(f"  {source.name}:", lines.index("sources:"))
        message = f"the files of {source.made_from} are not given"
        hint = f"{source.flag}, or write the path here"
        found.append(Problem(message, Position(shown, head + 2, 5), hint))
    return found


def _problem_json(problem: Problem) -> dict[str, Any]:
    at = problem.position
    place = {} if at is None else {"file": at.file, "line": at.line, "column": at.column}
    return {**place, "message": problem.message, "hint": problem.hint}
